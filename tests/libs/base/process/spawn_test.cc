#include "libs/base/process/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "libs/base/process/pipe.h"
#include "libs/base/process/wait.h"
#include "tests/libs/base/process/process_fixture.h"

namespace adaptdl {
namespace {

using ::testing::HasSubstr;

class SpawnTest : public ProcessTest {
 protected:
  // What these shell commands write when they are run with these options, until they end.
  static std::string OutputOf(const std::string& commands, SpawnOptions options = {}) {
    Pipe output = Pipe::Open().value();
    options.command = {"/bin/sh", "-c", commands};
    options.output_fd = output.write_end.get();
    const absl::StatusOr<pid_t> pid = Spawn(options);
    if (!pid.ok()) return pid.status().ToString();
    output.write_end.Reset();
    std::string text;
    char buffer[4096];
    ssize_t count;
    while ((count = ReadSome(output.read_end.get(), buffer, sizeof(buffer))) > 0) text.append(buffer, count);
    EXPECT_TRUE(WaitForChild(*pid).has_value());
    return text;
  }
};

TEST_F(SpawnTest, HasNothingToReadAndNothingOpenThatWasNotGiven) {
  const int leak = open("/dev/null", O_RDONLY);  // without O_CLOEXEC, as some libraries do
  // ls has its folder open itself.
  EXPECT_EQ(OutputOf("cat; ls /proc/self/fd | tr '\\n' ' '"), "0 1 2 3 ");
  close(leak);
}

TEST_F(SpawnTest, GivesFilesTheirNumbers) {
  Pipe first = Pipe::Open().value();
  Pipe second = Pipe::Open().value();
  SpawnOptions options;
  // Their own numbers are in each other's way, whatever they are.
  options.files = {second.write_end.get(), first.write_end.get()};
  EXPECT_EQ(OutputOf("echo three >&3; echo four >&4; ls /proc/self/fd | tr '\\n' ' '", options),
            "0 1 2 3 4 5 ");
  char buffer[10] = {};
  ASSERT_EQ(ReadSome(second.read_end.get(), buffer, sizeof(buffer)), 6);
  EXPECT_EQ(std::string(buffer), "three\n");
  char other[10] = {};
  ASSERT_EQ(ReadSome(first.read_end.get(), other, sizeof(other)), 5);
  EXPECT_EQ(std::string(other), "four\n");
}

TEST_F(SpawnTest, OutputAndErrorAreWhatTheyAreSetTo) {
  Pipe errors = Pipe::Open().value();
  SpawnOptions options;
  options.error_fd = errors.write_end.get();
  EXPECT_EQ(OutputOf("echo out; echo error >&2", options), "out\n");
  char buffer[10] = {};
  ASSERT_EQ(ReadSome(errors.read_end.get(), buffer, sizeof(buffer)), 6);
  EXPECT_EQ(std::string(buffer), "error\n");
}

TEST_F(SpawnTest, TheEnvironmentIsOursOrTheOneThatIsGiven) {
  setenv("ADAPTDL_SPAWN_TEST", "ours", 1);
  EXPECT_EQ(OutputOf("echo $ADAPTDL_SPAWN_TEST"), "ours\n");
  SpawnOptions options;
  options.environment = std::vector<std::string>{"COLOUR=red"};
  EXPECT_EQ(OutputOf("echo $ADAPTDL_SPAWN_TEST$COLOUR", options), "red\n");
  unsetenv("ADAPTDL_SPAWN_TEST");
}

TEST_F(SpawnTest, TheProgramMayBeAnotherThanTheFirstWord) {
  Pipe output = Pipe::Open().value();
  SpawnOptions options;
  options.command = {"called", "-c", "echo $0 $1", "zero", "one"};
  options.program = "/bin/sh";
  options.output_fd = output.write_end.get();
  const pid_t pid = Spawn(options).value();
  char buffer[20] = {};
  ASSERT_GT(ReadSome(output.read_end.get(), buffer, sizeof(buffer)), 0);
  EXPECT_EQ(std::string(buffer), "zero one\n");
  EXPECT_TRUE(WaitForChild(pid).has_value());
}

TEST_F(SpawnTest, LooksInThePathIfItIsToldTo) {
  SpawnOptions options;
  options.command = {"true"};
  SpawnFailure failure;
  EXPECT_TRUE(absl::IsNotFound(Spawn(options, &failure).status()));
  EXPECT_EQ(failure.stage, SpawnStage::kExecute);
  EXPECT_EQ(failure.error_number, ENOENT);
  options.search_path = true;
  const absl::StatusOr<pid_t> pid = Spawn(options, &failure);
  ASSERT_TRUE(pid.ok()) << pid.status();
  EXPECT_EQ(failure.stage, SpawnStage::kNone);
  EXPECT_EQ(WaitForChild(*pid)->code, 0);
}

TEST_F(SpawnTest, SaysWhatDidNotWork) {
  SpawnOptions options;
  options.command = {folder_ + "/missing"};
  SpawnFailure failure;
  const absl::Status missing = Spawn(options, &failure).status();
  EXPECT_TRUE(absl::IsNotFound(missing));
  EXPECT_THAT(missing.ToString(), HasSubstr(absl::StrCat("cannot start ", folder_, "/missing")));
  EXPECT_EQ(failure.stage, SpawnStage::kExecute);

  options.command = {"/bin/true"};
  options.working_directory = folder_ + "/nowhere";
  EXPECT_THAT(Spawn(options, &failure).status().ToString(), HasSubstr(folder_ + "/nowhere"));
  EXPECT_EQ(failure.stage, SpawnStage::kWorkingDirectory);
  EXPECT_EQ(failure.error_number, ENOENT);

  options.working_directory = "";
  options.control_group = folder_;
  EXPECT_FALSE(Spawn(options, &failure).ok());
  EXPECT_EQ(failure.stage, SpawnStage::kControlGroup);
  EXPECT_EQ(failure.error_number, ENOENT);
}

TEST_F(SpawnTest, EntersTheControlGroupBeforeItBegins) {
  const int procs = open((folder_ + "/cgroup.procs").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  close(procs);
  SpawnOptions options;
  options.control_group = folder_;
  // "0" is whoever writes it.
  EXPECT_EQ(OutputOf(absl::StrCat("cat ", folder_, "/cgroup.procs"), options), "0");
}

TEST_F(SpawnTest, IsInAGroupOrSessionOfItsOwnIfToldTo) {
  const auto group_of = [](SpawnOptions::Group group) {
    SpawnOptions options;
    options.command = {"/bin/sleep", "1000"};
    options.group = group;
    const pid_t pid = Spawn(options).value();
    const bool own_group = getpgid(pid) == pid;
    const bool own_session = getsid(pid) == pid;
    EXPECT_EQ(kill(own_group ? -pid : pid, SIGKILL), 0);
    EXPECT_EQ(WaitForChild(pid)->signal, SIGKILL);
    return std::pair(own_group, own_session);
  };
  EXPECT_EQ(group_of(SpawnOptions::Group::kOurs), std::pair(false, false));
  EXPECT_EQ(group_of(SpawnOptions::Group::kOwn), std::pair(true, false));
  EXPECT_EQ(group_of(SpawnOptions::Group::kSession), std::pair(true, true));
}

// The signals of this line of /proc/<pid>/status, the first bit for number 1.
uint64_t SignalsIn(const std::string& status, const std::string& line) {
  const size_t start = status.find(line + ":");
  return start == std::string::npos ? ~uint64_t{0}
                                    : std::stoull(status.substr(start + line.size() + 1), nullptr, 16);
}

TEST_F(SpawnTest, NoSignalIsBlockedAndThoseThatAreHeededAreNotIgnored) {
  constexpr uint64_t kPipe = 1 << (SIGPIPE - 1);
  constexpr uint64_t kHangUp = 1 << (SIGHUP - 1);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  const auto pipe_before = signal(SIGPIPE, SIG_IGN);
  const auto hup_before = signal(SIGHUP, SIG_IGN);
  SpawnOptions options;
  const std::string inherited = OutputOf("cat /proc/self/status", options);
  options.heeded_signals = {SIGPIPE};
  const std::string one_heeded = OutputOf("cat /proc/self/status", options);
  options.heeded_signals = AllSignals();
  const std::string all_heeded = OutputOf("cat /proc/self/status", options);
  signal(SIGPIPE, pipe_before);
  signal(SIGHUP, hup_before);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  for (const std::string& status : {inherited, one_heeded, all_heeded})
    EXPECT_EQ(SignalsIn(status, "SigBlk"), 0u);
  EXPECT_EQ(SignalsIn(inherited, "SigIgn") & (kPipe | kHangUp), kPipe | kHangUp);
  EXPECT_EQ(SignalsIn(one_heeded, "SigIgn") & (kPipe | kHangUp), kHangUp);
  EXPECT_EQ(SignalsIn(all_heeded, "SigIgn"), 0u);
}

TEST_F(SpawnTest, OurOwnSignalsAreAsTheyWere) {
  sigset_t term, before, after;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &term, &before);
  OutputOf("true");
  pthread_sigmask(SIG_SETMASK, &before, &after);
  EXPECT_EQ(sigismember(&after, SIGTERM), 1);
  EXPECT_EQ(sigismember(&after, SIGINT), 0);
}

TEST_F(SpawnTest, DiesWithTheThreadThatStartedIt) {
  SpawnOptions options;
  options.command = {"/bin/sleep", "1000"};
  options.death_signal = SIGTERM;
  pid_t pid = -1;
  std::thread([&] { pid = Spawn(options).value(); }).join();
  EXPECT_EQ(WaitForChild(pid)->signal, SIGTERM);
}

TEST_F(SpawnTest, AConfinedProgramCannotGainRightsAndLeavesNoCore) {
  const std::string show = "grep NoNewPrivs /proc/self/status | tr -d '\\t'; ulimit -Hc";
  SpawnOptions options;
  options.confined = true;
  EXPECT_EQ(OutputOf(show, options), "NoNewPrivs:1\n0\n");
  EXPECT_THAT(OutputOf(show), HasSubstr("NoNewPrivs:0\n"));
}

TEST_F(SpawnTest, RunsUnderTheAccountThatIsGiven) {
  SpawnOptions options;
  options.account = SpawnAccount{.uid = 54321, .gid = 54322, .max_processes = 321};
  if (getuid() != 0) {
    options.command = {"/bin/true"};
    SpawnFailure failure;
    EXPECT_FALSE(Spawn(options, &failure).ok());
    EXPECT_EQ(failure.stage, SpawnStage::kAccount);
    return;
  }
  EXPECT_EQ(OutputOf("id -u; id -g; id -G; umask", options), "54321\n54322\n54322\n0077\n");
  EXPECT_THAT(OutputOf("cat /proc/self/limits | tr -s ' '", options), HasSubstr("Max processes 321 321"));
}

TEST_F(SpawnTest, WhoIsRefusedNeverBegins) {
  SpawnOptions options;
  options.command = {"/bin/sh", "-c", absl::StrCat("touch ", folder_, "/ran")};
  pid_t child = -1;
  options.before_start = [&](pid_t pid) {
    child = pid;
    EXPECT_EQ(kill(pid, 0), 0);
    return absl::ResourceExhaustedError("no");
  };
  SpawnFailure failure;
  EXPECT_TRUE(absl::IsResourceExhausted(Spawn(options, &failure).status()));
  EXPECT_EQ(failure.stage, SpawnStage::kNone);
  EXPECT_NE(kill(child, 0), 0);
  EXPECT_FALSE(Exists(folder_ + "/ran"));
}

TEST_F(SpawnTest, BeginsOnceItIsAllowed) {
  SpawnOptions options;
  bool asked = false;
  options.before_start = [&](pid_t) {
    asked = true;
    return absl::OkStatus();
  };
  EXPECT_EQ(OutputOf("echo began", options), "began\n");
  EXPECT_TRUE(asked);
}

}  // namespace
}  // namespace adaptdl
