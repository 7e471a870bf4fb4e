// "adaptdl run" with real processes; the parts without I/O by themselves.

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/run/launcher.h"
#include "cli/run/line_prefixer.h"
#include "cli/run/outcome.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cli/program.h"

namespace adaptdl::cli {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

std::vector<std::string> Lines(const std::string& text) {
  return absl::StrSplit(text, '\n', absl::SkipEmpty());
}

TEST(LinePrefixer, GivesWholeLinesOnly) {
  LinePrefixer prefixer("[1] ");
  EXPECT_EQ(prefixer.Add("a"), "");
  EXPECT_EQ(prefixer.Add("b\n\nc"), "[1] ab\n[1] \n");
  EXPECT_EQ(prefixer.Add("\n"), "[1] c\n");
  EXPECT_EQ(prefixer.Finish(), "");
  EXPECT_EQ(prefixer.Add("end"), "");
  EXPECT_EQ(prefixer.Finish(), "[1] end\n");
}

TEST(LinePrefixer, CutsLinesThatDoNotEnd) {
  LinePrefixer prefixer("");
  const std::string lines = prefixer.Add(std::string((1 << 20) + 3, 'x'));
  EXPECT_EQ(lines.size(), (1 << 20) + 1);
  EXPECT_EQ(prefixer.Add("\n"), "xxx\n");
}

TEST(Outcome, NamesTheReplicaThatFailedAndNotThoseThatNoticed) {
  const GroupOutcome outcome = Judge({{0, 75}, {2, 137, 9}, {1, 75}}, 0);
  EXPECT_EQ(outcome.result, GroupResult::kFailed);
  EXPECT_EQ(outcome.code, 137);
  EXPECT_EQ(outcome.culprit.rank, 2);
}

TEST(Outcome, IsStoppedWhenReplicasWereStoppedAndNoneFailed) {
  EXPECT_EQ(Judge({{0, 143}, {1, 143}}, 0).code, 143);
  EXPECT_EQ(Judge({{0, 143}, {1, 0}}, 0).result, GroupResult::kStopped);
  EXPECT_EQ(Judge({{0, 130, SIGINT}, {1, 75}}, SIGINT).result, GroupResult::kStopped);
  EXPECT_EQ(Judge({{0, 143}, {1, 4}}, SIGTERM).code, 4);
}

TEST(Outcome, IsSuccessOnlyWhenAllSucceeded) {
  EXPECT_EQ(Judge({{0, 0}, {1, 0}}, 0).result, GroupResult::kSucceeded);
  EXPECT_EQ(Judge({{0, 0}, {1, 0}}, SIGTERM).result, GroupResult::kSucceeded);
  EXPECT_EQ(Judge({{0, 0}, {1, 75}}, 0).code, 75);
}

TEST(ReplicaEnvironment, HasNoPartOfAClusters) {
  LauncherOptions options;
  options.replicas = 3;
  options.environment = {{"ADAPTDL_REPLICA_RANK", "7"}, {"OMP_NUM_THREADS", "5"}};
  const auto variables = ReplicaEnvironment(options, 2, 4711, "secret", 1);
  EXPECT_EQ(variables.at("ADAPTDL_REPLICA_RANK"), "2");
  EXPECT_EQ(variables.at("ADAPTDL_MASTER_PORT"), "4711");
  EXPECT_EQ(variables.at("ADAPTDL_SUPERVISOR_ADDRESS"), "");
  EXPECT_EQ(variables.at("OMP_NUM_THREADS"), "5");
}

// "adaptdl run" in the background.
class Launched {
 public:
  Launched(const std::string& folder, const std::vector<std::string>& arguments) {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    std::vector<std::string> texts = {absl::StrCat(ADAPTDL_BINARY_DIR, "/bin/adaptdl"), "run"};
    texts.insert(texts.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& text : texts) argv.push_back(text.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
    posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
    EXPECT_EQ(posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    output_fd_ = ends[0];
  }
  ~Launched() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(output_fd_);
  }
  Launched(const Launched&) = delete;
  Launched& operator=(const Launched&) = delete;

  bool WaitFor(const std::string& text) {
    while (output_.find(text) == std::string::npos) {
      if (!ReadMore()) return false;
    }
    return true;
  }
  void Signal(int signal) { kill(pid_, signal); }
  // Exit code, or 128 + the signal's number.
  int Wait() {
    while (ReadMore()) {
    }
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  const std::string& output() const { return output_; }

 private:
  bool ReadMore() {
    char text[4096];
    const ssize_t got = read(output_fd_, text, sizeof(text));
    if (got > 0) output_.append(text, static_cast<size_t>(got));
    return got > 0;
  }

  pid_t pid_ = -1;
  int output_fd_ = -1;
  std::string output_;
};

class RunTest : public ::testing::Test {
 protected:
  // adaptdl run -n REPLICAS [flags] -- run_job ARGUMENTS, with checkpoints.
  std::vector<std::string> Job(int replicas, const std::vector<std::string>& arguments,
                               const std::vector<std::string>& flags = {}) {
    std::vector<std::string> all = {"-n", absl::StrCat(replicas), "--checkpoint", "checkpoint"};
    all.insert(all.end(), flags.begin(), flags.end());
    all.insert(all.end(), {"--", RUN_JOB});
    all.insert(all.end(), arguments.begin(), arguments.end());
    return all;
  }
  ProgramResult Run(std::vector<std::string> arguments, const std::vector<std::string>& environment = {}) {
    arguments.insert(arguments.begin(), "run");
    return RunProgram(folder_.path(), arguments, environment);
  }
  ProgramResult Shell(int replicas, const std::string& script,
                      const std::vector<std::string>& environment = {}) {
    return Run({"-n", absl::StrCat(replicas), "--", "sh", "-c", script}, environment);
  }

  TemporaryFolder folder_;
};

TEST_F(RunTest, LinesHaveTheirRankAndStayWhole) {
  const ProgramResult result =
      Shell(3, "for i in $(seq 500); do printf x; printf y; echo z; done; echo oops >&2; printf last");
  EXPECT_EQ(result.code, 0);
  const std::vector<std::string> lines = Lines(result.out);
  std::map<std::string, int> count;
  for (const std::string& line : lines) ++count[line];
  EXPECT_EQ(lines.size(), 3 * 501);
  for (const int rank : {0, 1, 2}) EXPECT_EQ(count[absl::StrCat("[", rank, "] xyz")], 500);
  EXPECT_EQ(count["[2] last"], 1);
  EXPECT_THAT(Lines(result.err), UnorderedElementsAre("[0] oops", "[1] oops", "[2] oops"));
}

TEST_F(RunTest, ASingleReplicaWritesAsIfAlone) { EXPECT_EQ(Shell(1, "echo hello").out, "hello\n"); }

TEST_F(RunTest, SharesTheCoresUnlessToldOtherwise) {
  const std::string print = "echo $OMP_NUM_THREADS";
  EXPECT_THAT(Lines(Shell(64, print).out), Each(HasSubstr("] 1")));
  EXPECT_EQ(Shell(1, print, {"OMP_NUM_THREADS=7"}).out, "7\n");
  EXPECT_EQ(Run({"--env", "OMP_NUM_THREADS=3", "--", "sh", "-c", print}).out, "3\n");
}

TEST_F(RunTest, AClustersAddressIsNotPassedOn) {
  EXPECT_EQ(Shell(1, "echo \"<$ADAPTDL_SUPERVISOR_ADDRESS>\"", {"ADAPTDL_SUPERVISOR_ADDRESS=h:1"}).out,
            "<>\n");
}

TEST_F(RunTest, WrongUseIsSaid) {
  EXPECT_EQ(Run({"-n", "2"}).code, 2);
  EXPECT_EQ(Run({"-n", "0", "--", "true"}).code, 2);
  const ProgramResult missing = Run({"-n", "2", "--", "./no-such-program"});
  EXPECT_EQ(missing.code, 1);
  EXPECT_THAT(missing.err, HasSubstr("cannot start ./no-such-program"));
}

TEST_F(RunTest, TheReplicaThatFailedGivesTheExitCodeAndEndsTheOthers) {
  const ProgramResult result = Run(Job(3, {"20000", "exit", "20", "1"}));
  EXPECT_EQ(result.code, 5);
  EXPECT_THAT(result.err, HasSubstr("rank 1 exited with 5"));
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("[0] adaptdl: a peer was lost"), HasSubstr("[2] adaptdl: a peer was lost")));
}

TEST_F(RunTest, WithoutRestartsAKilledReplicaEndsTheGroup) {
  const ProgramResult result = Run(Job(2, {"20000", "kill", "20", "1"}));
  EXPECT_EQ(result.code, 137);
  EXPECT_THAT(result.err, HasSubstr("rank 1 was killed by signal 9"));
}

TEST_F(RunTest, AKilledReplicaIsStartedAgainFromTheCheckpoint) {
  const ProgramResult result =
      Run(Job(3, {"400", "kill-saved", "200", "0"},
              {"--max-restarts", "1", "--env", "ADAPTDL_CHECKPOINT_PERIOD_STEPS=50"}));
  EXPECT_EQ(result.code, 0) << result.out << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("rank 0 was killed by signal 9"), HasSubstr("restart 1 of 1"),
                                HasSubstr("restored checkpoint-")));
  EXPECT_THAT(Lines(result.out), Contains("[2] each sample once after step 400"));
}

TEST_F(RunTest, ASignalToAnyReplicaStopsAllAfterTheSameStepAndTheyGoOn) {
  struct Stop {
    int replicas;
    const char* signal;
    const char* step;
    const char* rank;
  };
  for (const Stop& stop : {Stop{3, "term", "100", "2"}, Stop{1, "int", "150", "0"},
                           Stop{4, "int", "230", "1"}, Stop{2, "term", "300", "0"}}) {
    const ProgramResult result = Run(Job(stop.replicas, {"400", stop.signal, stop.step, stop.rank}));
    EXPECT_EQ(result.code, 143) << result.out << result.err;
    EXPECT_THAT(result.err, AllOf(HasSubstr(" after step "), HasSubstr("stopped"), Not(HasSubstr("peer"))));
  }
  const ProgramResult last = Run(Job(3, {"400"}));
  EXPECT_EQ(last.code, 0) << last.out << last.err;
  EXPECT_THAT(Lines(last.out), Contains("[0] each sample once after step 400"));
}

TEST_F(RunTest, CtrlCAtTheLauncherSavesAndStopsAll) {
  for (const int signal : {SIGINT, SIGTERM}) {
    Launched launched(folder_.path(), Job(3, {"100000", "say", signal == SIGINT ? "50" : "150", "1"}));
    ASSERT_TRUE(launched.WaitFor("[1] at step")) << launched.output();
    launched.Signal(signal);
    EXPECT_EQ(launched.Wait(), 143) << launched.output();
    EXPECT_THAT(launched.output(), HasSubstr("adaptdl: wrote checkpoint-"));
  }
  // Both runs were saved: this one begins beyond the first.
  Launched again(folder_.path(), Job(2, {"100000", "say", "0", "0"}));
  ASSERT_TRUE(again.WaitFor("[0] begins at step "));
  EXPECT_THAT(again.output(), AllOf(HasSubstr("of 2\n"), Not(HasSubstr("begins at step 0 "))));
  again.Signal(SIGTERM);
  EXPECT_EQ(again.Wait(), 143);
}

TEST_F(RunTest, ASecondCtrlCEndsAtOnce) {
  Launched launched(folder_.path(),
                    {"-n", "2", "--", "sh", "-c", "trap '' INT TERM; echo deaf; while :; do sleep 1; done"});
  ASSERT_TRUE(launched.WaitFor("[0] deaf") && launched.WaitFor("[1] deaf"));
  launched.Signal(SIGINT);
  ASSERT_TRUE(launched.WaitFor("Ctrl-C again"));
  launched.Signal(SIGINT);
  EXPECT_EQ(launched.Wait(), 130);
}

TEST_F(RunTest, NoReplicaOutlivesTheLauncher) {
  Launched launched(folder_.path(), {"-n", "2", "--", "sh", "-c", "echo up $$; exec sleep 1000"});
  ASSERT_TRUE(launched.WaitFor("[0] up ") && launched.WaitFor("[1] up "));
  launched.Signal(SIGKILL);
  EXPECT_EQ(launched.Wait(), 137);
  for (const std::string& line : Lines(launched.output())) {
    pid_t pid = 0;
    ASSERT_TRUE(absl::SimpleAtoi(line.substr(7), &pid)) << line;
    // Whoever inherits it has yet to reap it.
    std::error_code error;
    while (kill(pid, 0) == 0 &&
           !std::filesystem::read_symlink(absl::StrCat("/proc/", pid, "/exe"), error).empty()) {
    }
  }
}

TEST_F(RunTest, ManyGroupsAtOnceGetPortsOfTheirOwn) {
  std::vector<std::unique_ptr<Launched>> all;
  for (int i = 0; i < 6; ++i) {
    all.push_back(
        std::make_unique<Launched>(folder_.path(), std::vector<std::string>{"-n", "2", "--", RUN_JOB, "20"}));
  }
  for (const auto& launched : all) EXPECT_EQ(launched->Wait(), 0) << launched->output();
}

}  // namespace
}  // namespace adaptdl::cli
