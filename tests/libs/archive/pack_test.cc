// What of a folder travels, and by which name.

#include "libs/archive/pack.h"

#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/archive/digest.h"
#include "libs/archive/unpack.h"
#include "tests/libs/archive/folder.h"

namespace adaptdl::archive {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> PathsOf(const FolderContents& contents) {
  std::vector<std::string> paths;
  for (const FolderEntry& entry : contents.entries) paths.push_back(entry.path);
  return paths;
}

TEST(ScanTest, LeavesOutWhatTheRulesOfBothFilesSay) {
  const TestFolder folder;
  folder.Write(".gitignore", "*.bin\ndata/\n");
  folder.Write(".adaptdlignore", "!needed.bin\n/notes\n");
  folder.Write("a.bin", "x");
  folder.Write("needed.bin", "x");
  folder.Write("data/big", "x");
  folder.Write("notes/n", "x");
  folder.Write("pkg/notes/n", "x");
  folder.Write("pkg/__pycache__/m.pyc", "x");
  folder.Write("pkg/.gitignore", "local");
  folder.Write("pkg/local", "x");
  folder.Write(".git/HEAD", "x");
  const auto contents = ScanFolder(folder.path(), {});
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_THAT(PathsOf(*contents), ElementsAre(".adaptdlignore", ".gitignore", "needed.bin", "pkg",
                                              "pkg/.gitignore", "pkg/notes", "pkg/notes/n"));
  std::vector<std::string> left_out;
  for (const LeftOut& each : contents->left_out) left_out.push_back(each.path + " by " + each.rule);
  EXPECT_THAT(left_out, ElementsAre(".git by built in: .git", "a.bin by .gitignore:1: *.bin",
                                    "data by .gitignore:2: data/", "notes by .adaptdlignore:2: /notes",
                                    "pkg/__pycache__ by built in: __pycache__/",
                                    "pkg/local by pkg/.gitignore:1: local"));
}

TEST(ScanTest, LeavesOutVirtualEnvironments) {
  const TestFolder folder;
  folder.Write("train.py", "x");
  folder.Write("env/pyvenv.cfg", "home = /usr/bin");
  fs::create_directories(folder / "env/bin");
  fs::create_symlink("/usr/bin/python3", folder / "env/bin/python3");
  const auto contents = ScanFolder(folder.path(), {});
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_THAT(PathsOf(*contents), ElementsAre("train.py"));
  ASSERT_EQ(contents->left_out.size(), 1u);
  EXPECT_EQ(contents->left_out[0].path, "env");
  EXPECT_THAT(contents->left_out[0].rule, HasSubstr("pyvenv.cfg"));
}

TEST(ScanTest, RefusesLinksThatLeadOutAndNamesThem) {
  for (const char* target : {"/etc/passwd", "../other", "sub/../../other"}) {
    const TestFolder folder;
    folder.Write("a", "x");
    fs::create_symlink(target, folder / "away");
    const auto contents = ScanFolder(folder.path(), {});
    EXPECT_EQ(contents.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(contents.status().message(), AllOf(HasSubstr("\"away\""), HasSubstr(".adaptdlignore")));
    folder.Write(".adaptdlignore", "away");
    EXPECT_TRUE(ScanFolder(folder.path(), {}).ok());
  }
}

TEST(ScanTest, RefusesWhatIsNoFileAndNamesIt) {
  const TestFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  const auto contents = ScanFolder(folder.path(), {});
  EXPECT_THAT(contents.status().message(), AllOf(HasSubstr("\"pipe\""), HasSubstr("neither")));
}

TEST(ScanTest, SaysWhatIsLargeAndHowToLeaveItOut) {
  const TestFolder folder;
  folder.Write("small", "x");
  folder.Write("large/a", std::string(3000, 'x'));
  folder.Write("large/b", std::string(3000, 'x'));
  folder.Write("medium", std::string(2000, 'x'));
  const auto bytes = ScanFolder(folder.path(), {.max_bytes = 4096});
  EXPECT_EQ(bytes.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(bytes.status().message(),
              AllOf(HasSubstr("\"large/\" (5.9 KiB), \"medium\" (2.0 KiB)"), HasSubstr(".adaptdlignore")));
  const auto files = ScanFolder(folder.path(), {.max_files = 4});
  EXPECT_EQ(files.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(files.status().message(), AllOf(HasSubstr("has 5 files"), HasSubstr("\"large/\" (3)")));
}

TEST(ScanTest, SaysWhatCanNotBeRead) {
  EXPECT_EQ(ScanFolder("/nowhere/at/all", {}).status().code(), absl::StatusCode::kNotFound);
}

class PackTest : public testing::Test {
 protected:
  std::string DigestOf(const TestFolder& folder) {
    const auto packed = PackAll(folder.path(), out_ / "archive");
    EXPECT_TRUE(packed.ok()) << packed.status();
    if (!packed.ok()) return "";
    EXPECT_EQ(*DigestOfFile(out_ / "archive"), packed->digest);
    EXPECT_EQ(static_cast<int64_t>(fs::file_size(out_ / "archive")), packed->size);
    return packed->digest;
  }

  TestFolder out_;
};

TEST_F(PackTest, TheSameContentsHaveTheSameDigest) {
  const TestFolder one;
  one.Write("b/c", "text");
  one.Write("a", "x");
  const TestFolder other;
  other.Write("a", "x");
  other.Write("b/c", "text");
  chmod((other / "a").c_str(), 0600);
  fs::last_write_time(other / "a", fs::file_time_type::clock::now() - std::chrono::hours(1000));
  const std::string digest = DigestOf(one);
  EXPECT_TRUE(IsDigest(digest)) << digest;
  EXPECT_EQ(DigestOf(other), digest);
  chmod((other / "a").c_str(), 0700);
  EXPECT_NE(DigestOf(other), digest);
  one.Write("a", "y");
  EXPECT_NE(DigestOf(one), digest);
}

TEST_F(PackTest, UnpacksToTheSame) {
  const TestFolder folder;
  const std::string deep = std::string(200, 'd') + "/" + std::string(200, 'e');
  folder.Write("run.sh", "#!/bin/sh\n");
  chmod((folder / "run.sh").c_str(), 0755);
  folder.Write(deep + "/f", std::string(3 << 20, 'q'));
  folder.Write("\xc3\xa4 \xff\n", "any bytes are a name");
  fs::create_directories(folder / "empty");
  fs::create_symlink("../run.sh", folder / "empty/link");
  DigestOf(folder);
  const TestFolder to;
  const absl::Status status = UnpackArchive(out_ / "archive", to.path(), {});
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(to.Read("run.sh"), "#!/bin/sh\n");
  EXPECT_EQ(to.Read(deep + "/f"), std::string(3 << 20, 'q'));
  EXPECT_EQ(to.Read("\xc3\xa4 \xff\n"), "any bytes are a name");
  EXPECT_EQ(fs::read_symlink(to / "empty/link"), "../run.sh");
  struct stat info = {};
  ASSERT_EQ(stat((to / "run.sh").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0755u);
  EXPECT_EQ(DigestOf(to), DigestOf(folder));
}

TEST_F(PackTest, SaysThatAFileHasChangedMeanwhile) {
  const TestFolder folder;
  folder.Write("a", "text");
  for (const char* changed : {"tex", "text and more"}) {
    folder.Write("a", "text");
    auto contents = ScanFolder(folder.path(), {});
    ASSERT_TRUE(contents.ok());
    folder.Write("a", changed);
    const UniqueFd file(open((out_ / "archive").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    const auto packed = PackFolder(folder.path(), *contents, file.get());
    EXPECT_EQ(packed.status().code(), absl::StatusCode::kAborted);
    EXPECT_THAT(packed.status().message(), HasSubstr("/a has changed"));
  }
}

}  // namespace
}  // namespace adaptdl::archive
