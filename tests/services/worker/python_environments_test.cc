#include "services/worker/python_environments.h"

#include <sys/stat.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/services/worker/testing.h"

namespace adaptdl::worker {
namespace {

namespace fs = std::filesystem;

using ::testing::Contains;
using ::testing::ElementsAre;

v1::ReplicaTemplate Asking(const std::string& requirements) {
  v1::ReplicaTemplate replica;
  replica.mutable_python()->set_interpreter("python3");
  replica.mutable_python()->set_requirements(requirements);
  return replica;
}

void AddEnv(const std::string& name, const std::string& value, v1::ReplicaTemplate* replica) {
  v1::EnvironmentVariable* variable = replica->add_env();
  variable->set_name(name);
  variable->set_value(value);
}

class PythonEnvironmentsTest : public ::testing::Test {
 protected:
  PythonOptions Options() const { return {.folder = folder_ / "python", .program = "/bin/environment"}; }

  // As adaptdl-environment leaves it: `kilobytes` large, and a link to it unless it is half-made. Returns its path.
  std::string Make(PythonEnvironments& environments, const v1::ReplicaTemplate& replica, int kilobytes,
                   bool whole = true) {
    const auto command = environments.Prepare("default", replica, {});
    EXPECT_TRUE(command.ok()) << command.status();
    const std::string folder = folder_ / absl::StrCat("python/", environments.NameOf("default", replica));
    fs::create_directories(folder + "/made-1");
    WriteFile(folder + "/made-1/file", std::string(kilobytes << 10, 'x'));
    if (whole) fs::create_symlink("made-1", folder + "/cpython-311");
    return folder;
  }
  // Says that it was asked for so many seconds after the beginning of time.
  static void SetAsked(const std::string& folder, int seconds) {
    const timespec times[2] = {{seconds, 0}, {seconds, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, folder.c_str(), times, 0), 0);
  }

  TempFolder folder_;
};

TEST_F(PythonEnvironmentsTest, AllThatMakesADifferenceMakesAnother) {
  const PythonEnvironments environments(Options());
  std::set<std::string> names = {environments.NameOf("default", Asking("numpy")),
                                 environments.NameOf("other", Asking("numpy")),
                                 environments.NameOf("default", Asking("numpy\n"))};
  v1::ReplicaTemplate replica = Asking("numpy");
  replica.mutable_python()->set_interpreter("python3.12");
  names.insert(environments.NameOf("default", replica));
  replica = Asking("numpy");
  AddEnv("PIP_INDEX_URL", "https://example.com/simple", &replica);
  names.insert(environments.NameOf("default", replica));
  PythonOptions with_library = Options();
  with_library.library = "/usr/lib/adaptdl/python";
  names.insert(PythonEnvironments(with_library).NameOf("default", Asking("numpy")));
  EXPECT_EQ(names.size(), 6u);
  replica = Asking("numpy");
  AddEnv("LR", "0.1", &replica);
  EXPECT_EQ(environments.NameOf("default", replica), environments.NameOf("default", Asking("numpy")));
}

TEST_F(PythonEnvironmentsTest, NothingIsReadableForOthers) {
  PythonEnvironments environments(Options());
  ASSERT_TRUE(environments.Prepare("default", Asking("numpy"), {}).ok());
  const std::string folder =
      folder_ / absl::StrCat("python/", environments.NameOf("default", Asking("numpy")));
  for (const std::string& path : {folder_ / "python", folder_ / "python/default", folder}) {
    EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_all) << path;
  }
  EXPECT_EQ(ReadFile(folder + "/requirements.txt"), "numpy");
  EXPECT_TRUE(fs::exists(folder + "/lock"));
}

TEST_F(PythonEnvironmentsTest, CommentsAloneAreNotInstalled) {
  PythonEnvironments environments(Options());
  const auto command = environments.Prepare("default", Asking("# none\n"), {});
  ASSERT_TRUE(command.ok()) << command.status();
  EXPECT_THAT(*command, Contains("0"));
  EXPECT_EQ(command->back(), "--");
}

TEST_F(PythonEnvironmentsTest, TheOldestUnusedGoAndThoseInUseStay) {
  PythonOptions options = Options();
  options.max_unused_bytes = 150 << 10;
  PythonEnvironments environments(options);
  const std::string oldest = Make(environments, Asking("a"), 100);
  const std::string used = Make(environments, Asking("b"), 100);
  const std::string newest = Make(environments, Asking("c"), 100);
  SetAsked(used, 1);
  SetAsked(oldest, 2);
  SetAsked(newest, 3);
  const std::set<std::string> in_use = {environments.NameOf("default", Asking("b"))};
  const int64_t left = environments.Trim([&] { return in_use; });
  EXPECT_FALSE(fs::exists(oldest));
  EXPECT_TRUE(fs::exists(used));
  EXPECT_TRUE(fs::exists(newest));
  EXPECT_GE(left, 100 << 10);
  EXPECT_LE(left, options.max_unused_bytes);
  // Nor is anything left of it elsewhere.
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(options.folder)) names.insert(entry.path().filename());
  EXPECT_THAT(names, ElementsAre("default"));
}

TEST_F(PythonEnvironmentsTest, WhatIsHalfMadeGoesUnlessSomebodyIsAtIt) {
  PythonEnvironments environments(Options());
  const std::string folder = Make(environments, Asking("a"), 1, /*whole=*/false);
  const std::set<std::string> in_use = {environments.NameOf("default", Asking("a"))};
  environments.Trim([&] { return in_use; });
  EXPECT_TRUE(fs::exists(folder + "/made-1"));
  environments.Trim([] { return std::set<std::string>(); });
  EXPECT_FALSE(fs::exists(folder));
}

TEST_F(PythonEnvironmentsTest, AFolderThatBelongedToAnotherUserIsMadeAnew) {
  if (!CanChangeUsers()) GTEST_SKIP() << "NOT TESTED: only root can give files to others";
  PythonEnvironments environments(Options());
  const std::string folder = Make(environments, Asking("a"), 1);
  const PythonUser user{.account = Account{.uid = 200'001, .gid = 200'001, .name = "a", .home = ""},
                        .group = 200'009};
  ASSERT_TRUE(environments.Prepare("default", Asking("a"), user).ok());
  EXPECT_FALSE(fs::exists(folder + "/made-1"));
  struct stat info = {};
  ASSERT_EQ(stat(folder.c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, 0u);
  EXPECT_EQ(info.st_gid, 200'009u);
  EXPECT_EQ(info.st_mode & 07777, 03770u);
  ASSERT_EQ(stat((folder_ / "python/default").c_str(), &info), 0);
  EXPECT_EQ(info.st_gid, 200'009u);
  EXPECT_EQ(info.st_mode & 07777, 0710u);
}

}  // namespace
}  // namespace adaptdl::worker
