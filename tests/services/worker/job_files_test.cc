#include "services/worker/job_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/services/worker/testing.h"

namespace adaptdl::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace fs = std::filesystem;

class JobFilesTest : public ::testing::Test {
 protected:
  JobFilesTest() { fs::create_directories(share_); }

  v1::ReadJobFilesRequest Request(const std::string& path) {
    v1::ReadJobFilesRequest request;
    request.set_namespace_("default");
    request.set_job("mnist");
    request.set_job_uid("u1");
    request.set_folder(v1::JOB_FOLDER_SHARE);
    request.set_path(path);
    return request;
  }

  absl::StatusOr<std::vector<v1::FileChunk>> ReadAll(const v1::ReadJobFilesRequest& request) {
    auto reader = JobFileReader::Open(storage_.path(), request);
    if (!reader.ok()) return reader.status();
    std::vector<v1::FileChunk> chunks;
    while (true) {
      auto chunk = (*reader)->Next();
      if (!chunk.ok()) return chunk.status();
      if (!chunk->has_value()) return chunks;
      chunks.push_back(**chunk);
    }
  }

  // "path" for folders, "path=content" for files.
  std::vector<std::string> Contents(const std::string& path) {
    std::vector<std::string> contents;
    const auto chunks = ReadAll(Request(path));
    EXPECT_TRUE(chunks.ok()) << chunks.status();
    if (!chunks.ok()) return contents;
    for (const v1::FileChunk& chunk : *chunks) {
      contents.push_back(chunk.directory() ? chunk.path() : absl::StrCat(chunk.path(), "=", chunk.data()));
    }
    return contents;
  }

  absl::StatusCode CodeOf(const std::string& path) { return ReadAll(Request(path)).status().code(); }

  TempFolder storage_;
  const std::string share_ = storage_ / "default/mnist-u1/share";
};

TEST_F(JobFilesTest, ReadsAFileOrAFolderOrEverything) {
  fs::create_directories(share_ + "/b/deep");
  WriteFile(share_ + "/a.txt", "A");
  WriteFile(share_ + "/b/c.txt", "C");
  WriteFile(share_ + "/b/deep/empty", "");
  EXPECT_THAT(Contents("a.txt"), ElementsAre("a.txt=A"));
  EXPECT_THAT(Contents("b/"), ElementsAre("b", "b/c.txt=C", "b/deep", "b/deep/empty="));
  EXPECT_THAT(Contents(""), ElementsAre("a.txt=A", "b", "b/c.txt=C", "b/deep", "b/deep/empty="));
  EXPECT_THAT(Contents("."), ElementsAre("a.txt=A", "b", "b/c.txt=C", "b/deep", "b/deep/empty="));
}

TEST_F(JobFilesTest, CutsLargeFilesIntoChunks) {
  std::string content(2 * kMaxChunkBytes + 5, '\0');
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 7);
  WriteFile(share_ + "/model.bin", content);
  chmod((share_ + "/model.bin").c_str(), 0751);
  const auto chunks = ReadAll(Request("model.bin"));
  ASSERT_TRUE(chunks.ok());
  ASSERT_EQ(chunks->size(), 3u);
  std::string joined;
  for (const v1::FileChunk& chunk : *chunks) {
    EXPECT_EQ(chunk.offset(), static_cast<int64_t>(joined.size()));
    EXPECT_EQ(chunk.size(), static_cast<int64_t>(content.size()));
    EXPECT_EQ(chunk.mode(), 0751u);
    joined += chunk.data();
  }
  EXPECT_TRUE(joined == content);
}

TEST_F(JobFilesTest, RefusesPathsThatLeaveTheFolder) {
  WriteFile(storage_ / "secret", "S");
  for (const std::string path : {"..", "../../../secret", "a/../../x", "/etc/passwd", "./.."}) {
    EXPECT_EQ(CodeOf(path), absl::StatusCode::kInvalidArgument) << path;
  }
  EXPECT_EQ(CodeOf(std::string("a\0b", 3)), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(std::string(5000, 'a')), absl::StatusCode::kInvalidArgument);
}

TEST_F(JobFilesTest, RefusesLinksThatLeaveTheFolder) {
  TempFolder outside;
  WriteFile(outside / "secret", "S");
  fs::create_symlink(outside / "secret", share_ + "/absolute");
  fs::create_symlink("../../../secret", share_ + "/relative");
  fs::create_directory_symlink(outside.path(), share_ + "/folder");
  WriteFile(storage_ / "secret", "S");
  WriteFile(share_ + "/fine", "F");
  for (const std::string path : {"absolute", "relative", "folder/secret", "folder"}) {
    EXPECT_EQ(CodeOf(path), absl::StatusCode::kInvalidArgument) << path;
  }
  EXPECT_THAT(Contents(""), ElementsAre("fine=F"));
}

TEST_F(JobFilesTest, FollowsLinksThatStayInside) {
  fs::create_directories(share_ + "/run-2");
  WriteFile(share_ + "/run-2/model", "M");
  fs::create_directory_symlink("run-2", share_ + "/latest");
  fs::create_symlink("run-2/model", share_ + "/model");
  EXPECT_THAT(Contents("latest/model"), ElementsAre("latest/model=M"));
  EXPECT_THAT(Contents(""), ElementsAre("model=M", "run-2", "run-2/model=M"));
}

TEST_F(JobFilesTest, FilesOfOthersAreNotTheJobsByAHardLink) {
  if (geteuid() != 0) GTEST_SKIP() << "NOT TESTED: only root can give files away";
  WriteFile(share_ + "/own", "mine");
  WriteFile(storage_ / "secret", "of the worker");
  fs::create_hard_link(storage_ / "secret", share_ + "/link");
  for (const std::string& path : {share_, share_ + "/own"})
    ASSERT_EQ(chown(path.c_str(), 200'001, 200'001), 0);
  EXPECT_THAT(Contents(""), ElementsAre("own=mine"));
  EXPECT_EQ(CodeOf("link"), absl::StatusCode::kPermissionDenied);
}

TEST_F(JobFilesTest, AFifoDoesNotHangIt) {
  ASSERT_EQ(mkfifo((share_ + "/fifo").c_str(), 0600), 0);
  EXPECT_THAT(Contents(""), IsEmpty());
  EXPECT_EQ(CodeOf("fifo"), absl::StatusCode::kInvalidArgument);
}

TEST_F(JobFilesTest, SaysWhatIsMissing) {
  EXPECT_EQ(CodeOf("nothing"), absl::StatusCode::kNotFound);
  v1::ReadJobFilesRequest request = Request("");
  request.set_job("other");
  EXPECT_THAT(std::string(ReadAll(request).status().message()),
              HasSubstr("job \"default/other\" has no share folder"));
  request.set_job("..");
  EXPECT_EQ(ReadAll(request).status().code(), absl::StatusCode::kInvalidArgument);
  request = Request("");
  request.clear_folder();
  EXPECT_EQ(ReadAll(request).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(JobFilesTest, ALinkedJobFolderIsRefused) {
  TempFolder outside;
  fs::create_directories(outside / "share");
  WriteFile(outside / "share/secret", "S");
  fs::create_directory_symlink(outside.path(), storage_ / "default/mnist-u2");
  v1::ReadJobFilesRequest request = Request("");
  request.set_job_uid("u2");
  EXPECT_FALSE(ReadAll(request).ok());
}

}  // namespace
}  // namespace adaptdl::worker
