// The real adaptdl-shim with real processes.

#include "services/worker/shim/shim.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/worker/shim/records.h"
#include "tests/services/worker/testing.h"

namespace adaptdl::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ShimTest : public ::testing::Test {
 protected:
  ~ShimTest() override { HangUp(); }

  ProcessSpec Shell(const std::string& script) {
    return {.argv = {"sh", "-c", script},
            .env = {{"PATH", "/usr/local/bin:/usr/bin:/bin"}},
            .working_directory = folder_.path(),
            .grace_period = absl::Seconds(20)};
  }

  // Starts a shim, connected to this test unless `flags` are of one without a worker.
  void Start(const ProcessSpec& spec, std::vector<std::string> flags = {}, bool connected = true) {
    WriteFile(folder_ / kLaunchFile, absl::StrCat("{\"process\":", ProcessSpecToJson(spec), "}"));
    int ends[2] = {-1, -1};
    if (connected) {
      ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    }
    control_fd_ = ends[0];
    std::vector<std::string> arguments = {ADAPTDL_BINARY_DIR "/bin/adaptdl-shim", folder_.path()};
    if (connected) {
      arguments.insert(arguments.end(), {"--control-fd", absl::StrCat(ends[1])});
      fcntl(ends[1], F_SETFD, 0);
    }
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    const pid_t pid = fork();
    if (pid == 0) {
      execv(argv[0], argv.data());
      _exit(1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);  // it goes on in the background
    ASSERT_EQ(status, 0);
    if (connected) close(ends[1]);
  }

  void HangUp() {
    if (control_fd_ >= 0) close(control_fd_);
    control_fd_ = -1;
  }

  void Send(const StopCommand& command) {
    const std::string line = StopCommandToLine(command);
    ASSERT_EQ(write(control_fd_, line.data(), line.size()), static_cast<ssize_t>(line.size()));
  }

  ExitRecord WaitForExit() {
    EXPECT_TRUE(WaitForFile(folder_ / kExitFile));
    const absl::StatusOr<ExitRecord> record = ExitRecordFromJson(ReadFile(folder_ / kExitFile));
    EXPECT_TRUE(record.ok()) << record.status();
    return record.value_or(ExitRecord{});
  }

  void ExpectRefused(const std::string& command, int code, const std::string& message) {
    ProcessSpec spec = Shell("");
    spec.argv = {command};
    Start(spec);
    const ExitRecord record = WaitForExit();
    EXPECT_EQ(record.exit_code, code);
    EXPECT_THAT(record.message, HasSubstr(message));
  }

  bool WaitForOutput(const std::string& text) {
    return WaitForChange(folder_.path(),
                         [&] { return absl::StrContains(ReadFile(folder_ / kLogFile), text); });
  }

  pid_t ReplicaPid() {
    EXPECT_TRUE(WaitForFile(folder_ / kRunningFile));
    return static_cast<pid_t>(RunningRecordFromJson(ReadFile(folder_ / kRunningFile))->pid);
  }

  // What the process wrote, without what the log adds.
  std::vector<std::string> Output() {
    std::vector<std::string> texts;
    for (const absl::string_view line :
         absl::StrSplit(ReadFile(folder_ / kLogFile), '\n', absl::SkipEmpty())) {
      const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(' ', 3));
      if (parts.size() == 4) texts.push_back(absl::StrCat(parts[1], " ", parts[2], " ", parts[3]));
    }
    return texts;
  }

  TempFolder folder_;
  int control_fd_ = -1;
};

TEST_F(ShimTest, RecordsTheExitCodeAndBothStreams) {
  Start(Shell("echo out; echo err >&2; exit 3"));
  const ExitRecord record = WaitForExit();
  EXPECT_EQ(record.exit_code, 3);
  EXPECT_EQ(record.signal, 0);
  EXPECT_LE(record.start_time, record.end_time);
  EXPECT_THAT(Output(), testing::UnorderedElementsAre("stdout F out", "stderr F err"));
}

TEST_F(ShimTest, RecordsTheSignal) {
  Start(Shell("kill -KILL $$"));
  EXPECT_EQ(WaitForExit().signal, SIGKILL);
}

TEST_F(ShimTest, QuotesTheLastWordsOfAProgramThatFails) {
  Start(Shell("echo out; echo cat: no such file >&2; exit 3"));
  EXPECT_EQ(WaitForExit().message, "its last words: cat: no such file");
}

TEST_F(ShimTest, QuotesThemBehindAnyAmountOfOutput) {
  Start(Shell("yes | head -c 1000000 >&2; printf 'the last' >&2; kill -ABRT $$"));
  const ExitRecord record = WaitForExit();
  EXPECT_EQ(record.signal, SIGABRT);
  EXPECT_EQ(record.message, "its last words: the last");
}

class ShimEndTest : public ShimTest, public testing::WithParamInterface<const char*> {};

TEST_P(ShimEndTest, QuotesNobodyWhoseEndSaysEnough) {
  Start(Shell(absl::StrCat("echo chatter >&2; ", GetParam())));
  EXPECT_EQ(WaitForExit().message, "");
}

INSTANTIATE_TEST_SUITE_P(Ends, ShimEndTest,
                         testing::Values("exit 0", "exit 75", "exit 143", "kill -TERM $$", "kill -KILL $$"));

TEST_F(ShimTest, GivesExactlyTheEnvironmentFolderAndInputAsked) {
  // The shell's own descriptors, one by one: a pipe or a listing would add one of its own.
  ProcessSpec spec = Shell(
      "pwd; env | grep -v -E '^(PWD|SHLVL|_)='; cat; "
      "for n in 0 1 2 3 4 5 6 7 8 9; do test -e /proc/$$/fd/$n && printf '%s ' $n; done; true");
  spec.env.emplace_back("GREETING", "a b=c");
  Start(spec);
  EXPECT_EQ(WaitForExit().exit_code, 0);
  EXPECT_THAT(Output(), testing::UnorderedElementsAre(absl::StrCat("stdout F ", folder_.path()),
                                                      "stdout F PATH=/usr/local/bin:/usr/bin:/bin",
                                                      "stdout F GREETING=a b=c", "stdout F 0 1 2 "));
}

TEST_F(ShimTest, SaysThatACommandIsNotInThePath) {
  ProcessSpec spec = Shell("");
  spec.argv = {"no-such-program", "--flag"};
  Start(spec);
  const ExitRecord record = WaitForExit();
  EXPECT_EQ(record.exit_code, 127);
  EXPECT_THAT(record.message, HasSubstr("command 'no-such-program' not found in PATH"));
  EXPECT_THAT(ReadFile(folder_ / kLogFile), HasSubstr("command 'no-such-program' not found in PATH"));
  EXPECT_FALSE(record.lost);
}

TEST_F(ShimTest, SaysThatACommandIsNotThere) { ExpectRefused(folder_ / "missing", 127, "not found"); }

TEST_F(ShimTest, SaysThatACommandIsNoProgram) {
  WriteFile(folder_ / "notes.txt", "hello");
  ExpectRefused(folder_ / "notes.txt", 126, "is not executable");
}

TEST_F(ShimTest, SaysThatACommandIsAFolder) { ExpectRefused(folder_.path(), 126, "is not executable"); }

TEST_F(ShimTest, SaysThatTheWorkingFolderIsNotThere) {
  ProcessSpec spec = Shell("true");
  spec.working_directory = folder_ / "missing";
  Start(spec);
  const ExitRecord record = WaitForExit();
  EXPECT_EQ(record.exit_code, 126);
  EXPECT_THAT(record.message, HasSubstr("working directory '" + spec.working_directory + "'"));
}

TEST_F(ShimTest, ADamagedLaunchFileIsLostNotTheJobsFault) {
  Start(Shell("true"), {}, /*connected=*/true);
  WaitForExit();
  HangUp();
  std::filesystem::remove(folder_ / kExitFile);
  TempFolder other;
  WriteFile(other / kLaunchFile, "{");
  ASSERT_EQ(system(absl::StrCat(ADAPTDL_BINARY_DIR "/bin/adaptdl-shim ", other.path()).c_str()), 0);
  ASSERT_TRUE(WaitForFile(other / kExitFile));
  EXPECT_TRUE(ExitRecordFromJson(ReadFile(other / kExitFile))->lost);
}

TEST_F(ShimTest, NothingThatTheProcessStartedOutlivesIt) {
  // One in its process group, one in a session of its own, one whose parent is gone; all hold the pipes.
  Start(Shell("sleep 1000 & echo $!; setsid sleep 1000 & echo $!; (sleep 1000 & echo $!); exit 5"));
  EXPECT_EQ(WaitForExit().exit_code, 5);
  const std::vector<std::string> output = Output();
  ASSERT_THAT(output, SizeIs(3));
  for (const std::string& line : output) {
    int pid = 0;
    ASSERT_TRUE(absl::SimpleAtoi(line.substr(line.rfind(' ') + 1), &pid));
    EXPECT_NE(kill(pid, 0), 0) << line;
  }
}

TEST_F(ShimTest, StopsBySigtermAndLetsTheProcessFinish) {
  Start(Shell("trap 'echo saved; exit 143' TERM; echo ready; while :; do sleep 0.02; done"));
  ASSERT_TRUE(WaitForOutput("ready"));
  Send({.grace_period = absl::Seconds(30), .reason = "re-scale"});
  const ExitRecord record = WaitForExit();
  EXPECT_EQ(record.exit_code, 143);
  EXPECT_EQ(record.message, "");
  EXPECT_THAT(Output(), testing::IsSupersetOf({"stdout F ready", "stdout F saved"}));
}

TEST_F(ShimTest, KillsAProcessThatIgnoresSigtermAfterTheGracePeriod) {
  Start(Shell("trap '' TERM; echo ready; while :; do sleep 0.02; done"));
  ASSERT_TRUE(WaitForOutput("ready"));
  Send({.grace_period = absl::Milliseconds(50), .reason = "re-scale"});
  const ExitRecord record = WaitForExit();
  EXPECT_EQ(record.signal, SIGKILL);
  EXPECT_THAT(record.message, HasSubstr("did not end within its grace period"));
}

TEST_F(ShimTest, ChildrenOfAShellHaveTheGracePeriodToo) {
  // SIGTERM ends the shell at once; its child still has a checkpoint to write.
  Start(
      Shell("(trap 'sleep 0.3; echo saved; exit 0' TERM; echo ready; while :; do sleep 0.02; done) & wait"));
  ASSERT_TRUE(WaitForOutput("ready"));
  Send({.grace_period = absl::Seconds(30), .reason = ""});
  EXPECT_EQ(WaitForExit().signal, SIGTERM);
  EXPECT_THAT(Output(), testing::IsSupersetOf({"stdout F ready", "stdout F saved"}));
}

TEST_F(ShimTest, AShorterGracePeriodReplacesALongerOne) {
  Start(Shell("trap '' TERM; echo ready; while :; do sleep 0.02; done"));
  ASSERT_TRUE(WaitForOutput("ready"));
  Send({.grace_period = absl::Hours(1), .reason = ""});
  Send({.grace_period = absl::ZeroDuration(), .reason = ""});
  EXPECT_EQ(WaitForExit().signal, SIGKILL);
}

TEST_F(ShimTest, StopsTheReplicaWhenNoWorkerComesBack) {
  Start(Shell("trap 'exit 143' TERM; echo ready; while :; do sleep 0.02; done"),
        {"--orphan-timeout", "200ms"});
  ASSERT_TRUE(WaitForOutput("ready"));
  HangUp();
  const ExitRecord record = WaitForExit();
  EXPECT_EQ(record.exit_code, 143);
  EXPECT_THAT(record.message, HasSubstr("no worker came back within 200ms"));
}

TEST_F(ShimTest, RunsOnWhileAWorkerIsConnected) {
  Start(Shell("sleep 0.6; exit 4"), {"--orphan-timeout", "50ms"});
  EXPECT_EQ(WaitForExit().exit_code, 4);
}

TEST_F(ShimTest, TellsAConnectedWorkerWhatHappens) {
  Start(Shell("exit 6"));
  std::string received;
  char buffer[4096];
  ssize_t count;
  while ((count = read(control_fd_, buffer, sizeof(buffer))) > 0) received.append(buffer, count);
  const std::vector<std::string> lines = absl::StrSplit(received, '\n', absl::SkipEmpty());
  ASSERT_THAT(lines, SizeIs(2));
  EXPECT_GT(ShimEventFromLine(lines[0])->running.pid, 0);
  EXPECT_EQ(ShimEventFromLine(lines[1])->kind, ShimEvent::Kind::kExited);
  EXPECT_EQ(ShimEventFromLine(lines[1])->exit.exit_code, 6);
}

TEST_F(ShimTest, TheProcessDiesWithItsShim) {
  Start(Shell("echo ready; sleep 1000"));
  ASSERT_TRUE(WaitForOutput("ready"));
  const pid_t replica = ReplicaPid();
  int shim = 0;
  const std::string stat = ReadFile(absl::StrCat("/proc/", replica, "/stat"));
  ASSERT_EQ(sscanf(stat.c_str() + stat.rfind(')') + 1, " %*c %d", &shim), 1);
  ASSERT_EQ(kill(shim, SIGKILL), 0);
  EXPECT_TRUE(WaitForProcessEnd(replica));
  EXPECT_FALSE(std::filesystem::exists(folder_ / kExitFile));
}

TEST_F(ShimTest, APipeThatAStrangerHoldsDoesNotHangIt) {
  Start(Shell("echo ready; while [ ! -e go ]; do sleep 0.02; done"));
  ASSERT_TRUE(WaitForOutput("ready"));
  const int stranger = open(absl::StrCat("/proc/", ReplicaPid(), "/fd/1").c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_GE(stranger, 0);
  WriteFile(folder_ / "go", "");
  EXPECT_EQ(WaitForExit().exit_code, 0);
  close(stranger);
}

TEST_F(ShimTest, SplitsLongLinesAndKeepsBinaryOutput) {
  Start(Shell("head -c 20000 /dev/zero | tr '\\0' x; echo; printf 'a\\000b\\377\\n'; printf end"));
  WaitForExit();
  EXPECT_THAT(Output(),
              ElementsAre("stdout P " + std::string(16384, 'x'), "stdout F " + std::string(3616, 'x'),
                          std::string("stdout F a\0b\xff", 13), "stdout F end"));
}

TEST_F(ShimTest, RotatesTheLog) {
  Start(Shell("seq 1 5000"), {"--log-file-bytes", "20000", "--log-files", "3"});
  WaitForExit();
  EXPECT_THAT(ReadFile(folder_ / kLogFile), HasSubstr(" 5000\n"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "replica.log.2"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "replica.log.3"));
}

TEST_F(ShimTest, LeavesNothingButItsRecords) {
  Start(Shell("true"));
  WaitForExit();
  char byte;
  EXPECT_TRUE(
      WaitForChange(folder_.path(), [&] { return !std::filesystem::exists(folder_ / kControlSocket); }));
  while (read(control_fd_, &byte, 1) > 0) {
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "exit.json.reserved"));
  EXPECT_THAT(ReadFile(folder_ / "shim.log"), IsEmpty());
}

TEST_F(ShimTest, AProgramThatOnlyPreparesSaysWhyItDidNotBecomeTheOther) {
  ProcessSpec spec =
      Shell(R"(echo '{"cause":"job","exit_code":126,"message":"no such package"}' >&3; exit 126)");
  spec.prepares = true;
  Start(spec);
  const ExitRecord record = WaitForExit();
  EXPECT_EQ(record.exit_code, 126);
  EXPECT_EQ(record.cause, Cause::kJob);
  EXPECT_EQ(record.message, "no such package");
}

TEST_F(ShimTest, OthersHaveNobodyToSayItTo) {
  Start(Shell("echo x 2>/dev/null >&3 || echo closed"));
  EXPECT_EQ(WaitForExit().exit_code, 0);
  EXPECT_THAT(Output(), ::testing::Contains("stdout F closed"));
}

}  // namespace
}  // namespace adaptdl::worker
