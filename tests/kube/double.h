// The double of an API server, as a process of a test.

#ifndef ADAPTDL_TESTS_KUBE_DOUBLE_H_
#define ADAPTDL_TESTS_KUBE_DOUBLE_H_

#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/base/process/pipe.h"
#include "libs/base/process/spawn.h"
#include "libs/base/process/wait.h"

namespace adaptdl::kube {

class ApiServerDouble {
 public:
  // `people`: token,user,uid,"group1,group2" a line; empty: anybody may do anything.
  explicit ApiServerDouble(const std::string& people = "") {
    char folder[] = "/tmp/adaptdl-apiserver-XXXXXX";
    folder_ = mkdtemp(folder);
    if (!people.empty()) std::ofstream(folder_ + "/people") << people;
    Start();
  }
  ~ApiServerDouble() {
    Stop();
    std::filesystem::remove_all(folder_);
  }

  // "http://127.0.0.1:PORT", the same after a restart.
  const std::string& url() const { return url_; }

  // It goes on with what it had.
  void Start() {
    Pipe pipe = Pipe::Open().value();
    SpawnOptions options;
    options.command = {"/usr/bin/python3",  "-m",  "apiserver", "--port", absl::StrCat(port_),
                       "--bookmark-period", "0.2", "--state",   State()};
    if (std::filesystem::exists(folder_ + "/people")) {
      options.command.insert(options.command.end(), {"--token-auth-file", folder_ + "/people"});
    }
    options.working_directory = ADAPTDL_SOURCE_DIR "/tests/kube";
    options.output_fd = pipe.write_end.get();
    options.death_signal = SIGKILL;
    pid_ = Spawn(options).value();
    pipe.write_end.Reset();
    std::string line;
    char c;
    while (ReadSome(pipe.read_end.get(), &c, 1) == 1 && c != '\n') line.push_back(c);
    url_ = line;
    ASSERT_TRUE(absl::SimpleAtoi(line.substr(line.rfind(':') + 1), &port_)) << "it did not start: " << line;
  }
  void Stop() {
    if (pid_ == 0) return;
    kill(pid_, SIGTERM);
    WaitForChild(pid_);
    pid_ = 0;
  }

 private:
  std::string State() const { return folder_ + "/state"; }

  std::string folder_;
  std::string url_;
  int port_ = 0;
  pid_t pid_ = 0;
};

}  // namespace adaptdl::kube

#endif  // ADAPTDL_TESTS_KUBE_DOUBLE_H_
