// A job that is killed at any moment, again and again, loses nothing that was written and restores nothing
// that is torn.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <thread>

#include "gtest/gtest.h"
#include "libs/elastic/checkpoint/checkpoint_store.h"
#include "tests/libs/elastic/temp_folder.h"

namespace adaptdl::elastic {
namespace {

// A crash_job in `folder`.
class Process {
 public:
  explicit Process(const std::string& folder) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(ends[1], STDOUT_FILENO);
      close(ends[0]);
      close(ends[1]);
      execl(CRASH_JOB, CRASH_JOB, folder.c_str(), nullptr);
      _exit(127);
    }
    close(ends[1]);
    output_ = fdopen(ends[0], "r");
  }
  ~Process() { std::fclose(output_); }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // The step that it goes on from. Negative: it has ended.
  long long AwaitStart() {
    long long step = -1;
    return std::fscanf(output_, "at step %lld", &step) == 1 ? step : -1;
  }

  // Whether it was alive until then.
  bool Kill() {
    kill(pid_, SIGKILL);
    int status = 0;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    if (WIFEXITED(status)) ADD_FAILURE() << "the job ended by itself with " << WEXITSTATUS(status);
    return WIFSIGNALED(status);
  }

 private:
  pid_t pid_ = -1;
  FILE* output_ = nullptr;
};

int64_t NewestIn(const std::string& folder) {
  int64_t newest = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("checkpoint-")) newest = std::max<int64_t>(newest, std::atoll(name.c_str() + 11));
  }
  return newest;
}

bool IsUnfinishedIn(const std::string& folder) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with(".writing-")) return true;
  }
  return false;
}

TEST(Crash, NoKillEverTearsOrLosesACheckpoint) {
  constexpr int kKills = 200;
  TempFolder folder;
  std::mt19937 random(7);
  long long last_step = 0;
  int torn_writes = 0;
  int window_us = 60'000;
  for (int i = 0; i < kKills; ++i) {
    Process job(folder.path());
    const long long step = job.AwaitStart();
    ASSERT_GE(step, last_step) << "kill " << i;
    // The moment of the kill is what is random here.
    std::this_thread::sleep_for(std::chrono::microseconds(random() % window_us));
    ASSERT_TRUE(job.Kill()) << "kill " << i;
    if (IsUnfinishedIn(folder.path())) ++torn_writes;
    // Whatever bears the name of a checkpoint is a whole one.
    const int64_t newest = NewestIn(folder.path());
    CheckpointStore store({.folder = folder.path()});
    const auto restored = store.LoadNewest();
    if (newest == 0) {
      window_us = std::min(2 * window_us, 2'000'000);
      continue;
    }
    ASSERT_TRUE(restored.ok()) << restored.status();
    ASSERT_EQ(restored->version, newest) << "kill " << i;
    uint64_t saved_step = 0;
    std::memcpy(&saved_step, restored->states.at("first").data(), sizeof(saved_step));
    // On a machine that is too busy to get anywhere, it is given longer.
    window_us = static_cast<long long>(saved_step) > last_step ? 60'000 : std::min(2 * window_us, 2'000'000);
    last_step = static_cast<long long>(saved_step);
  }
  EXPECT_GT(last_step, 0);
  EXPECT_GT(torn_writes, 0) << "no kill has hit a write";
  std::printf("%d kills, %d of them during a write; step %lld\n", kKills, torn_writes, last_step);
}

}  // namespace
}  // namespace adaptdl::elastic
