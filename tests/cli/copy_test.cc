// "adaptdl cp" by the real program.

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cli/command_fixture.h"

namespace adaptdl::cli {
namespace {

using ::testing::HasSubstr;

class CopyTest : public CommandTest {
 protected:
  CopyTest() { supervisor_.AddJob(EndedJob("a", v1::JOB_PHASE_SUCCEEDED)); }

  void AddFile(const std::string& path, const std::string& data) {
    v1::FileChunk chunk;
    chunk.set_path(path);
    chunk.set_mode(0640);
    chunk.set_size(static_cast<int64_t>(data.size()));
    chunk.set_data(data);
    supervisor_.AddChunk(chunk);
  }
  void AddFolder(const std::string& path) {
    v1::FileChunk chunk;
    chunk.set_path(path);
    chunk.set_directory(true);
    supervisor_.AddChunk(chunk);
  }
};

TEST_F(CopyTest, CopiesAFile) {
  AddFile("out/model.pt", "weights");
  const ProgramResult result = Run({"cp", "a:share/out/model.pt", "here.pt"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "1 file, 7B copied to here.pt\n");
  EXPECT_EQ(folder_.Read("here.pt"), "weights");
  EXPECT_EQ(supervisor_.last_files_request().folder(), v1::JOB_FOLDER_SHARE);
  EXPECT_EQ(supervisor_.last_files_request().path(), "out/model.pt");
  EXPECT_EQ(Run({"cp", "default/a:/share/out/model.pt", "."}).code, 0);
  EXPECT_EQ(folder_.Read("model.pt"), "weights");
}

// Where the containers of AdaptDL's jobs have the folders.
TEST_F(CopyTest, TakesThePathsOfAdaptdlsContainers) {
  AddFile("foo.txt", "Hello");
  EXPECT_EQ(Run({"cp", "a:/adaptdl/share/foo.txt", "foo.txt"}).code, 0);
  EXPECT_EQ(folder_.Read("foo.txt"), "Hello");
  EXPECT_EQ(supervisor_.last_files_request().folder(), v1::JOB_FOLDER_SHARE);
  EXPECT_EQ(supervisor_.last_files_request().path(), "foo.txt");
  Run({"cp", "a:/adaptdl/checkpoint", "."});
  EXPECT_EQ(supervisor_.last_files_request().folder(), v1::JOB_FOLDER_CHECKPOINT);
  EXPECT_EQ(supervisor_.last_files_request().path(), "");
  EXPECT_THAT(Run({"cp", "a:/adaptdl/other", "."}).err, HasSubstr("/adaptdl/share/"));
}

TEST_F(CopyTest, CopiesAFolder) {
  AddFolder("");
  AddFile("x", "1");
  AddFolder("sub");
  AddFile("sub/y", "2");
  const ProgramResult result = Run({"cp", "a:checkpoint", "copy", "-o", "json"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("\"files\": 2"));
  EXPECT_EQ(folder_.Read("copy/x"), "1");
  EXPECT_EQ(folder_.Read("copy/sub/y"), "2");
  EXPECT_EQ(supervisor_.last_files_request().folder(), v1::JOB_FOLDER_CHECKPOINT);
  // Once more, now into the folder that exists.
  EXPECT_EQ(Run({"cp", "a:checkpoint/", "copy"}).code, 0);
  EXPECT_EQ(folder_.Read("copy/checkpoint/sub/y"), "2");
}

TEST_F(CopyTest, LetsNothingEscape) {
  AddFile("out/../../evil", "x");
  std::filesystem::create_directory(folder_.path() + "/in");
  const ProgramResult result = Run({"cp", "a:share/out", "in/copy"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("which is refused"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path() + "/in"));
}

TEST_F(CopyTest, TakesOnlyWhatItAskedFor) {
  AddFile("other", "x");
  const ProgramResult result = Run({"cp", "a:share/out", "copy"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("was not asked for"));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/copy"));
}

TEST_F(CopyTest, LeavesNoHalfFile) {
  v1::FileChunk chunk;
  chunk.set_path("big");
  chunk.set_size(100);
  chunk.set_data("only this");
  supervisor_.AddChunk(chunk);
  const ProgramResult result = Run({"cp", "a:share/big", "big"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("big was cut short after 9 of 100 bytes"));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/big"));
}

TEST_F(CopyTest, RefusesWrongUsage) {
  EXPECT_EQ(Run({"cp", "a", "b"}).code, 2);
  EXPECT_EQ(Run({"cp", "a:etc/passwd", "b"}).code, 2);
  EXPECT_EQ(Run({"cp", "a:share/../../x", "b"}).code, 2);
  EXPECT_THAT(Run({"cp", "a:share/none", "b"}).err, HasSubstr("none does not exist"));
  AddFile("x", "1");
  EXPECT_THAT(Run({"cp", "a:share/x", "nowhere/"}).err, HasSubstr("nowhere/ is no folder"));
  EXPECT_EQ(Run({"cp", "a:share/x", "nowhere/y"}).code, 1);
}

}  // namespace
}  // namespace adaptdl::cli
