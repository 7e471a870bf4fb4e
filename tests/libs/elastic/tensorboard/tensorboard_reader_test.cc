// TensorBoard itself reads what the library writes.

#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>

#include "absl/strings/ascii.h"
#include "adaptdl/tensorboard.h"
#include "gtest/gtest.h"
#include "libs/elastic/tensorboard/event_file.h"
#include "tests/libs/elastic/replica_threads.h"
#include "tests/libs/elastic/temp_folder.h"

namespace adaptdl {
namespace {

using elastic::Replica;
using elastic::RunReplicas;
using elastic::TempFolder;

constexpr int kSkipped = 77;

// What a command writes to its standard output. `status`: its exit code.
std::string OutputOf(const std::string& command, int* status) {
  std::string text;
  FILE* pipe = popen(command.c_str(), "r");
  char buffer[4096];
  while (const size_t got = std::fread(buffer, 1, sizeof(buffer), pipe)) text.append(buffer, got);
  *status = WEXITSTATUS(pclose(pipe));
  return text;
}

// The newest event file: their names begin with the time and a number.
std::string LastFile(const std::string& folder) {
  std::string last;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    last = std::max(last, entry.path().string());
  }
  return last;
}

TEST(TensorBoard, ReadsItAll) {
  int status = 0;
  const std::string python(absl::StripAsciiWhitespace(
      OutputOf(ADAPTDL_SOURCE_DIR "/tests/venv.sh " ADAPTDL_BINARY_DIR "/tensorboard-venv " ADAPTDL_SOURCE_DIR
                                  "/tests/libs/elastic/tensorboard/requirements.txt",
               &status)));
  if (status == kSkipped) {
    std::cerr << "\n*** SKIPPED: TensorBoard is not to be had here, nothing was tried with it. ***\n\n";
    GTEST_SKIP() << "no Python registry";
  }
  ASSERT_EQ(status, 0);
  TempFolder folder;
  for (const int start : {0, 2}) {
    RunReplicas(1, {}, [&](Replica& replica) {
      TensorBoardWriter writer(replica.job, folder.path());
      for (int step = start; step < start + 2; ++step) writer.AddScalar("train/loss", 0.25 * step, step);
      writer.AddScalar("Gain", 1.5, start);
    });
  }
  // A process that is killed within a write leaves a part of a record.
  std::ofstream(LastFile(folder.path()), std::ios::binary | std::ios::app)
      << elastic::FrameRecord("torn").substr(0, 9);
  EXPECT_EQ(OutputOf(python + " " ADAPTDL_SOURCE_DIR "/tests/libs/elastic/tensorboard/read_events.py " +
                         folder.path(),
                     &status),
            "Gain 0 1.5\nGain 2 1.5\n"
            "train/loss 0 0.0\ntrain/loss 1 0.25\ntrain/loss 2 0.5\ntrain/loss 3 0.75\n");
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace adaptdl
