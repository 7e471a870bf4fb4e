// The real programs, as processes.

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace {

using ::testing::HasSubstr;
using Environment = std::map<std::string, std::string>;

class Process {
 public:
  Process(const std::string& program, const std::vector<std::string>& arguments,
          const Environment& environment) {
    int pipe_ends[2];
    EXPECT_EQ(pipe2(pipe_ends, O_CLOEXEC), 0);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(pipe_ends[1], STDOUT_FILENO);
      dup2(pipe_ends[1], STDERR_FILENO);
      setenv("OMP_NUM_THREADS", "1", 1);
      for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
      const std::string path = std::string(ADAPTDL_BINARY_DIR) + "/bin/" + program;
      std::vector<char*> argv = {const_cast<char*>(path.c_str())};
      for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
      argv.push_back(nullptr);
      execv(path.c_str(), argv.data());
      _exit(127);
    }
    close(pipe_ends[1]);
    output_fd_ = pipe_ends[0];
  }
  ~Process() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(output_fd_);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Reads until `text` is there. False: the output ended before.
  bool WaitFor(const std::string& text) {
    while (output_.find(text) == std::string::npos) {
      if (!ReadMore()) return false;
    }
    return true;
  }

  void Signal(int signal) { kill(pid_, signal); }

  // Exit code; negative: minus the signal.
  int Wait() {
    while (ReadMore()) {
    }
    int status = 0;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  const std::string& output() const { return output_; }

  // From the last line; negative: it says none.
  double Accuracy() const {
    const size_t at = output_.rfind("test accuracy: ");
    return at == std::string::npos ? -1 : std::atof(output_.c_str() + at + 15);
  }

 private:
  bool ReadMore() {
    char text[4096];
    const ssize_t got = read(output_fd_, text, sizeof(text));
    if (got <= 0) return false;
    output_.append(text, got);
    return true;
  }

  pid_t pid_ = -1;
  int output_fd_ = -1;
  std::string output_;
};

int FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  close(fd);
  return ntohs(address.sin_port);
}

class MnistProgramsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "adaptdl-mnist-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // A group of replicas of the elastic program that share checkpoints with the groups before.
  std::vector<std::unique_ptr<Process>> Start(int replicas, const std::vector<std::string>& arguments) {
    const std::string port = std::to_string(FreePort());
    std::vector<std::unique_ptr<Process>> group;
    for (int rank = 0; rank < replicas; ++rank) {
      group.push_back(
          std::make_unique<Process>("adaptdl-mnist", arguments,
                                    Environment{{"ADAPTDL_REPLICA_RANK", std::to_string(rank)},
                                                {"ADAPTDL_NUM_REPLICAS", std::to_string(replicas)},
                                                {"ADAPTDL_NUM_NODES", "1"},
                                                {"ADAPTDL_MASTER_PORT", port},
                                                {"ADAPTDL_CHECKPOINT_PATH", folder_ + "/checkpoint"},
                                                {"ADAPTDL_SHARE_PATH", folder_}}));
    }
    return group;
  }

  std::string folder_;
};

const std::vector<std::string> kShort = {"--samples", "2000", "--epochs", "2"};

TEST_F(MnistProgramsTest, ThePlainProgramLearns) {
  Process plain("adaptdl-mnist-plain", kShort, {});
  EXPECT_EQ(plain.Wait(), 0) << plain.output();
  EXPECT_GT(plain.Accuracy(), 80) << plain.output();
}

TEST_F(MnistProgramsTest, RealDigitsAreLearnt) {
  const std::string data = std::string(ADAPTDL_SOURCE_DIR) + "/../shared/data/mnist";
  if (!std::filesystem::exists(data)) GTEST_SKIP() << "no " << data;
  Process elastic("adaptdl-mnist", {"--data", data, "--epochs", "1"}, {});
  EXPECT_EQ(elastic.Wait(), 0) << elastic.output();
  EXPECT_GT(elastic.Accuracy(), 94) << elastic.output();
}

TEST_F(MnistProgramsTest, ReplicasThatAreStoppedAndRescaledLearnWhatOneLearns) {
  Process alone("adaptdl-mnist", kShort, {});
  EXPECT_EQ(alone.Wait(), 0) << alone.output();

  auto first = Start(2, kShort);
  ASSERT_TRUE(first[0]->WaitFor("epoch 1:")) << first[0]->output();
  first[1]->Signal(SIGTERM);
  EXPECT_EQ(first[0]->Wait(), 143) << first[0]->output();
  EXPECT_EQ(first[1]->Wait(), 143) << first[1]->output();
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/result.json"));

  auto second = Start(1, kShort);
  EXPECT_EQ(second[0]->Wait(), 0) << second[0]->output();
  EXPECT_THAT(second[0]->output(), HasSubstr("restored checkpoint-1"));
  EXPECT_THAT(second[0]->output(), ::testing::Not(HasSubstr("epoch 1:")));
  // Sums are taken in another order: a few pictures may fall on the other side.
  EXPECT_NEAR(second[0]->Accuracy(), alone.Accuracy(), 1.0);
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/result.json"));
}

TEST_F(MnistProgramsTest, AKilledPeerEndsTheOthersWithTheirCode) {
  auto group = Start(3, {"--samples", "2000", "--epochs", "100"});
  ASSERT_TRUE(group[0]->WaitFor("epoch 1:")) << group[0]->output();
  group[2]->Signal(SIGKILL);
  EXPECT_EQ(group[2]->Wait(), -SIGKILL);
  EXPECT_EQ(group[0]->Wait(), 75) << group[0]->output();
  EXPECT_EQ(group[1]->Wait(), 75) << group[1]->output();
  EXPECT_THAT(group[0]->output(), HasSubstr("a peer was lost"));
}

TEST_F(MnistProgramsTest, ASecondInterruptKills) {
  Process elastic("adaptdl-mnist", {"--samples", "2000", "--epochs", "100"}, {});
  ASSERT_TRUE(elastic.WaitFor("epoch 1:")) << elastic.output();
  elastic.Signal(SIGINT);
  elastic.Signal(SIGINT);
  const int code = elastic.Wait();
  EXPECT_TRUE(code == -SIGINT || code == 143) << code;
}

TEST_F(MnistProgramsTest, WrongSettingsAreNamed) {
  Process wrong("adaptdl-mnist", {}, {{"ADAPTDL_NUM_REPLICAS", "many"}});
  EXPECT_EQ(wrong.Wait(), 1);
  EXPECT_THAT(wrong.output(), HasSubstr("ADAPTDL_NUM_REPLICAS=\"many\""));
}

TEST_F(MnistProgramsTest, RunsWithoutAClusterAndGoesOnWithAnotherNumberOfReplicas) {
  const auto run = [&](const std::string& replicas) {
    const std::string program = std::string(ADAPTDL_BINARY_DIR) + "/bin/adaptdl-mnist";
    return std::make_unique<Process>(
        "adaptdl",
        std::vector<std::string>{"run", "-n", replicas, "--checkpoint", folder_ + "/checkpoint", "--",
                                 program, "--samples", "2000", "--epochs", "4"},
        Environment{});
  };
  const auto first = run("2");
  ASSERT_TRUE(first->WaitFor("epoch 1:")) << first->output();
  first->Signal(SIGINT);
  EXPECT_EQ(first->Wait(), 143) << first->output();
  EXPECT_THAT(first->output(), HasSubstr("adaptdl: wrote checkpoint-"));
  const auto second = run("1");
  EXPECT_EQ(second->Wait(), 0) << second->output();
  EXPECT_THAT(second->output(), HasSubstr("adaptdl: restored checkpoint-"));
  EXPECT_GT(second->Accuracy(), 80) << second->output();
}

}  // namespace
