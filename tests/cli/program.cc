#include "tests/cli/program.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/base/file.h"

namespace adaptdl::cli {
namespace {

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

ProgramResult RunProgram(const std::string& folder, const std::vector<std::string>& arguments,
                         const std::vector<std::string>& environment) {
  std::vector<std::string> argv = {absl::StrCat(ADAPTDL_BINARY_DIR, "/bin/adaptdl")};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  // The first of a name counts.
  std::vector<std::string> variables = environment;
  variables.insert(variables.end(), {"PATH=/usr/bin:/bin", "COLUMNS=100", absl::StrCat("HOME=", folder)});
  const TemporaryFolder outputs;
  const std::string out = outputs.path() + "/out";
  const std::string err = outputs.path() + "/err";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
  pid_t pid = 0;
  const int error = posix_spawn(&pid, argv[0].c_str(), &actions, nullptr, Pointers(argv).data(),
                                Pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  ProgramResult result;
  if (error != 0) {
    ADD_FAILURE() << argv[0] << " can't be started: error " << error;
    return result;
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.out = outputs.Read("out");
  result.err = outputs.Read("err");
  return result;
}

TemporaryFolder::TemporaryFolder() {
  std::string pattern = absl::StrCat(testing::TempDir(), "/adaptdl-cli-XXXXXX");
  if (mkdtemp(pattern.data()) == nullptr) ADD_FAILURE() << "can't make " << pattern;
  path_ = std::filesystem::canonical(pattern).string();
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

std::string TemporaryFolder::Write(const std::string& name, const std::string& content) const {
  const std::filesystem::path path = std::filesystem::path(path_) / name;
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << content;
  return path.string();
}

std::string TemporaryFolder::Read(const std::string& name) const {
  return ReadWholeFile(absl::StrCat(path_, "/", name)).value_or("");
}

}  // namespace adaptdl::cli
