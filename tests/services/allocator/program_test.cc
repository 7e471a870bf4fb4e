// adaptdl-allocator as a program.

#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/file.h"
#include "tests/integration/process.h"

namespace adaptdl::allocator {
namespace {

using integration::Process;
using ::testing::HasSubstr;

TEST(AllocatorProgramTest, EndsInOrderWhenItIsAskedTo) {
  const std::string folder =
      absl::StrCat(std::filesystem::temp_directory_path().string(), "/adaptdl-allocator-", getpid());
  std::filesystem::create_directories(folder);
  const std::string address = folder + "/address";
  Process program = Process::Start(
      {ADAPTDL_BINARY_DIR "/bin/adaptdl-allocator", "--insecure", "--listen=127.0.0.1:0",
       "--metrics-listen=127.0.0.1:0", "--supervisor=127.0.0.1:1", "--address-file=" + address},
      folder + "/log");
  // Until it serves: the first that it tells anybody.
  while (!std::filesystem::exists(address)) ASSERT_EQ(program.Wait(absl::Milliseconds(5)), -1);
  program.Signal(SIGTERM);
  EXPECT_EQ(program.Wait(absl::Minutes(1)), 0);
  EXPECT_THAT(ReadWholeFile(folder + "/log").value_or(""), HasSubstr("stopped"));
  EXPECT_FALSE(std::filesystem::exists(address));
  std::filesystem::remove_all(folder);
}

TEST(AllocatorProgramTest, RefusesPoliciesToCompareWithAndNamesTheRemedy) {
  const std::string log =
      absl::StrCat(std::filesystem::temp_directory_path().string(), "/adaptdl-allocator-policy-", getpid());
  for (const char* policy : {"sia", "pollux", "greedy"}) {
    Process program = Process::Start({ADAPTDL_BINARY_DIR "/bin/adaptdl-allocator", "--insecure",
                                      "--listen=127.0.0.1:0", absl::StrCat("--policy=", policy)},
                                     log);
    EXPECT_GT(program.Wait(absl::Minutes(1)), 0) << policy;
    EXPECT_THAT(ReadWholeFile(log).value_or(""),
                HasSubstr(absl::StrCat("--policy: \"", policy, "\" is not offered here")));
    EXPECT_THAT(ReadWholeFile(log).value_or(""), HasSubstr("Leave the flag out"));
    std::filesystem::remove(log);
  }
}

}  // namespace
}  // namespace adaptdl::allocator
