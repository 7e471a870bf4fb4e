// A folder of its own, programs made of shell commands, and waiting for conditions, for tests with real
// processes.

#ifndef ADAPTDL_TESTS_LIBS_BASE_PROCESS_PROCESS_FIXTURE_H_
#define ADAPTDL_TESTS_LIBS_BASE_PROCESS_PROCESS_FIXTURE_H_

#include <poll.h>
#include <signal.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/base/clock.h"
#include "libs/base/file.h"
#include "libs/base/process/process_identity.h"

namespace adaptdl {

class ProcessTest : public ::testing::Test {
 protected:
  ProcessTest() {
    char folder[] = "/tmp/adaptdl-process-XXXXXX";
    folder_ = std::filesystem::canonical(mkdtemp(folder)).string();
  }

  ~ProcessTest() override {
    for (const ProcessIdentity& process : started_) SignalProcess(process, SIGKILL).IgnoreError();
    std::filesystem::remove_all(folder_);
  }

  // True as soon as the condition holds; false when it does not within a minute.
  static bool Eventually(const std::function<bool()>& condition) {
    const absl::Time limit = SteadyNow() + absl::Minutes(1);
    while (!condition()) {
      if (SteadyNow() > limit) return false;
      poll(nullptr, 0, 1);
    }
    return true;
  }

  static bool Exists(const std::string& path) { return std::filesystem::exists(path); }
  static std::string Content(const std::string& path) { return ReadWholeFile(path).value_or(""); }

  // A program that runs these shell commands.
  std::string Script(const std::string& name, const std::string& commands) {
    const std::string path = folder_ + "/" + name;
    // Written elsewhere and renamed: a program that is open for writing can't be executed.
    std::ofstream(path + ".new") << "#!/bin/sh\n" << commands;
    chmod((path + ".new").c_str(), 0755);
    std::filesystem::rename(path + ".new", path);
    return path;
  }

  // Ends the process with the test.
  void EndLater(const ProcessIdentity& process) { started_.push_back(process); }

  std::string folder_;
  std::vector<ProcessIdentity> started_;
};

}  // namespace adaptdl

#endif  // ADAPTDL_TESTS_LIBS_BASE_PROCESS_PROCESS_FIXTURE_H_
