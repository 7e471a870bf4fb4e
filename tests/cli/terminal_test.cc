// "adaptdl top" on a terminal: it fills it, follows its size, and leaves it as it was, however it ends.

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cli/command_fixture.h"
#include "tests/cli/sample_cluster.h"

namespace adaptdl::cli {
namespace {

using ::testing::HasSubstr;

constexpr char kOtherScreen[] = "\x1b[?1049h";
constexpr char kBack[] = "\x1b[?25h\x1b[?1049l";
// Far more than it takes; the test would fail then.
constexpr int kPatienceMs = 30'000;

class TerminalTest : public CommandTest {
 protected:
  void SetUp() override {
    const v1::ListJobsResponse jobs = SampleJobs();
    for (const v1::Job& job : jobs.jobs()) supervisor_.AddJob(job);
    const v1::ListNodesResponse nodes = SampleNodes();
    for (const v1::Node& node : nodes.nodes()) supervisor_.AddNode(node);
  }
  ~TerminalTest() override {
    if (terminal_ >= 0) close(terminal_);
    if (pid_ > 0) kill(pid_, SIGKILL);
  }

  static std::string Command() {
    return absl::StrCat(ADAPTDL_BINARY_DIR, "/bin/adaptdl top --interval 200ms");
  }

  // Starts the shell's command on a new terminal of this size.
  void Start(unsigned short columns, unsigned short rows, const std::string& command = "exec " + Command()) {
    winsize size = {};
    size.ws_col = columns;
    size.ws_row = rows;
    const std::string address = "ADAPTDL_SUPERVISOR_ADDRESS=" + supervisor_.address();
    const std::string home = "HOME=" + folder_.path();
    const char* const arguments[] = {"bash", "-c", command.c_str(), nullptr};
    const char* const variables[] = {address.c_str(), home.c_str(), "ADAPTDL_INSECURE=1", "TERM=xterm",
                                     nullptr};
    pid_ = forkpty(&terminal_, nullptr, nullptr, &size);
    ASSERT_GE(pid_, 0);
    if (pid_ == 0) {
      execve("/bin/bash", const_cast<char**>(arguments), const_cast<char**>(variables));
      _exit(127);
    }
  }
  // Reads until the text is there. False: it has ended before, or does not come.
  bool ReadUntil(const std::string& text) {
    const absl::Time deadline = absl::Now() + absl::Milliseconds(kPatienceMs);
    while (!absl::StrContains(output_, text)) {
      if (absl::Now() > deadline) return false;
      pollfd file = {terminal_, POLLIN, 0};
      if (poll(&file, 1, kPatienceMs) <= 0) return false;
      char bytes[4096];
      const ssize_t count = read(terminal_, bytes, sizeof(bytes));
      if (count <= 0) return false;
      output_.append(bytes, static_cast<size_t>(count));
    }
    return true;
  }
  void Press(const std::string& keys) {
    output_.clear();
    ASSERT_EQ(write(terminal_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }
  bool TakesLines() const {
    termios now = {};
    return tcgetattr(terminal_, &now) == 0 && (now.c_lflag & ICANON) != 0 && (now.c_lflag & ECHO) != 0;
  }
  // What became of it.
  int AwaitEnd() {
    ReadUntil("this never comes");
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  pid_t pid_ = -1;
  int terminal_ = -1;
  std::string output_;
};

TEST_F(TerminalTest, KeysLeadToAJobAndOut) {
  Start(80, 24);
  ASSERT_TRUE(ReadUntil("resnet50-")) << output_;
  EXPECT_THAT(output_, HasSubstr(kOtherScreen));
  EXPECT_FALSE(TakesLines());
  Press("\r");
  ASSERT_TRUE(ReadUntil("Job default/resnet50-imagenet")) << output_;
  Press("\x1b");
  ASSERT_TRUE(ReadUntil("REPLICAS")) << output_;
  Press("q");
  ASSERT_TRUE(ReadUntil(kBack)) << output_;
  EXPECT_TRUE(TakesLines());
  EXPECT_EQ(AwaitEnd(), 0);
}

TEST_F(TerminalTest, FollowsTheSizeOfTheTerminal) {
  Start(120, 30);
  ASSERT_TRUE(ReadUntil("LOSS")) << output_;
  // It draws after it has begun to watch the size.
  output_.clear();
  winsize size = {};
  size.ws_col = 40;
  size.ws_row = 12;
  ASSERT_EQ(ioctl(terminal_, TIOCSWINSZ, &size), 0);
  // Nothing is drawn below the last row.
  ASSERT_TRUE(ReadUntil("\x1b[12;1Hq quit")) << output_;
  output_.clear();
  ASSERT_TRUE(ReadUntil("\x1b[12;1Hq quit")) << output_;
  EXPECT_THAT(output_, testing::Not(HasSubstr("\x1b[13;1H")));
  EXPECT_THAT(output_, testing::Not(HasSubstr("LOSS")));
  Press("q");
  EXPECT_EQ(AwaitEnd(), 0);
}

TEST_F(TerminalTest, LeavesTheTerminalAsItWasHoweverItEnds) {
  for (const int signal : {SIGINT, SIGTERM, SIGSEGV}) {
    Start(80, 24);
    output_.clear();
    ASSERT_TRUE(ReadUntil("resnet50-")) << output_;
    if (signal == SIGINT) {
      Press("\x03");
    } else {
      kill(pid_, signal);
    }
    ASSERT_TRUE(ReadUntil(kBack)) << output_;
    EXPECT_TRUE(TakesLines());
    EXPECT_EQ(AwaitEnd(), 128 + signal);
    close(terminal_);
    terminal_ = -1;
  }
}

TEST_F(TerminalTest, GivesTheTerminalBackWhileItIsStopped) {
  // A shell that watches its jobs, as people have it, and goes on with this one when it is told to.
  Start(80, 24,
        absl::StrCat("set -m; ", Command(), "; stty -a; echo IS STOPPED; read -r; fg; echo ENDED $?"));
  ASSERT_TRUE(ReadUntil("resnet50-")) << output_;
  Press("\x1a");
  ASSERT_TRUE(ReadUntil("IS STOPPED")) << output_;
  EXPECT_THAT(output_, HasSubstr(kBack));
  EXPECT_THAT(output_, HasSubstr(" icanon "));
  Press("\n");
  ASSERT_TRUE(ReadUntil("resnet50-")) << output_;
  EXPECT_THAT(output_, HasSubstr(kOtherScreen));
  Press("q");
  ASSERT_TRUE(ReadUntil("ENDED 0")) << output_;
  EXPECT_EQ(AwaitEnd(), 0);
}

TEST_F(TerminalTest, PrintsOnceWithoutATerminal) {
  const ProgramResult once = Run({"top", "--once", "--all"});
  EXPECT_EQ(once.code, 0) << once.err;
  EXPECT_THAT(once.out, HasSubstr("\nJobs: 1 running, 1 waiting, 1 changing, 1 ended; 5 replicas\n"));
  EXPECT_THAT(once.out, testing::Not(HasSubstr("\x1b")));
  const ProgramResult none = Run({"top"});
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.err, HasSubstr("--once prints it once"));
}

}  // namespace
}  // namespace adaptdl::cli
