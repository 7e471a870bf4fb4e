// Archives as an attacker would make them.

#include "libs/archive/unpack.h"

#include <archive.h>
#include <archive_entry.h>
#include <sys/stat.h>

#include <filesystem>
#include <functional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/libs/archive/folder.h"

namespace adaptdl::archive {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// A tar with what the test puts into it.
class HostileArchive {
 public:
  explicit HostileArchive(const std::string& path, bool gzip = false) : tar_(archive_write_new()) {
    archive_write_set_format_pax(tar_);
    gzip ? archive_write_add_filter_gzip(tar_) : archive_write_add_filter_zstd(tar_);
    EXPECT_EQ(archive_write_open_filename(tar_, path.c_str()), ARCHIVE_OK) << archive_error_string(tar_);
  }
  ~HostileArchive() { archive_write_free(tar_); }

  HostileArchive& Add(const std::string& path, mode_t type, const std::string& text = "",
                      mode_t mode = 0644) {
    archive_entry* entry = archive_entry_new();
    archive_entry_copy_pathname(entry, path.c_str());
    archive_entry_set_filetype(entry, type);
    archive_entry_set_perm(entry, mode);
    if (type == AE_IFLNK) archive_entry_copy_symlink(entry, text.c_str());
    if (type == AE_IFREG) archive_entry_set_size(entry, static_cast<int64_t>(text.size()));
    return Write(entry, text);
  }
  HostileArchive& AddHardLink(const std::string& path, const std::string& to) {
    archive_entry* entry = archive_entry_new();
    archive_entry_copy_pathname(entry, path.c_str());
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_copy_hardlink(entry, to.c_str());
    return Write(entry, "");
  }

 private:
  HostileArchive& Write(archive_entry* entry, const std::string& text) {
    EXPECT_GE(archive_write_header(tar_, entry), ARCHIVE_WARN) << archive_error_string(tar_);
    if (archive_entry_filetype(entry) == AE_IFREG && !text.empty()) {
      archive_write_data(tar_, text.data(), text.size());
    }
    archive_entry_free(entry);
    return *this;
  }

  ::archive* tar_;
};

class UnpackTest : public testing::Test {
 protected:
  absl::Status Unpack(const std::function<void(HostileArchive&)>& fill, const UnpackOptions& options = {}) {
    { fill(*std::make_unique<HostileArchive>(file_ / "archive")); }
    fs::create_directories(file_ / "outer/to");
    return UnpackArchive(file_ / "archive", file_ / "outer/to", options);
  }

  // It is refused, and nothing is beside the folder.
  void ExpectRefused(const std::function<void(HostileArchive&)>& fill, const std::string& why) {
    const absl::Status status = Unpack(fill);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(status.message(), HasSubstr(why));
    EXPECT_EQ(std::distance(fs::directory_iterator(file_ / "outer"), fs::directory_iterator()), 1);
    fs::remove_all(file_ / "outer");
  }

  TestFolder file_;
};

TEST_F(UnpackTest, RefusesPathsThatLeadOut) {
  ExpectRefused([](HostileArchive& a) { a.Add("/tmp/evil", AE_IFREG, "x"); }, "is absolute");
  ExpectRefused([](HostileArchive& a) { a.Add("../evil", AE_IFREG, "x"); }, "holds \"..\"");
  ExpectRefused([](HostileArchive& a) { a.Add("a/../../evil", AE_IFREG, "x"); }, "holds \"..\"");
  ExpectRefused([](HostileArchive& a) { a.Add("a//b", AE_IFREG, "x"); }, "empty");
  ExpectRefused([](HostileArchive& a) { a.Add("./b", AE_IFREG, "x"); }, "\".\"");
}

TEST_F(UnpackTest, RefusesLinksThatLeadOut) {
  ExpectRefused([](HostileArchive& a) { a.Add("l", AE_IFLNK, "/etc"); }, "absolute");
  ExpectRefused([](HostileArchive& a) { a.Add("l", AE_IFLNK, ".."); }, "leads out");
  ExpectRefused([](HostileArchive& a) { a.Add("a/l", AE_IFLNK, "../../x"); }, "leads out");
  // By way of a link that is fine by itself.
  ExpectRefused(
      [](HostileArchive& a) {
        a.Add("x/y/top", AE_IFLNK, "../..");
        a.Add("l", AE_IFLNK, "x/y/top/..");
      },
      "\"..\" after a name");
}

TEST_F(UnpackTest, WritesThroughNoLink) {
  ExpectRefused(
      [](HostileArchive& a) {
        a.Add("real/", AE_IFDIR);
        a.Add("l", AE_IFLNK, "real");
        a.Add("l/file", AE_IFREG, "x");
      },
      "lies in what is no folder");
  ExpectRefused(
      [](HostileArchive& a) {
        a.Add("l", AE_IFLNK, "target");
        a.Add("l", AE_IFREG, "x");
      },
      "twice");
}

TEST_F(UnpackTest, RefusesWhatIsNoFile) {
  ExpectRefused([](HostileArchive& a) { a.Add("p", AE_IFIFO); }, "neither");
  ExpectRefused([](HostileArchive& a) { a.Add("d", AE_IFCHR); }, "neither");
  ExpectRefused(
      [](HostileArchive& a) {
        a.Add("f", AE_IFREG, "x");
        a.AddHardLink("h", "f");
      },
      "hard link");
}

TEST_F(UnpackTest, GivesNobodyAnotherUsersRights) {
  ASSERT_TRUE(Unpack([](HostileArchive& a) {
                a.Add("suid", AE_IFREG, "x", 06777);
                a.Add("folder/", AE_IFDIR, "", 07777);
              }).ok());
  struct stat info = {};
  ASSERT_EQ(stat((file_ / "outer/to/suid").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0755u);
  ASSERT_EQ(stat((file_ / "outer/to/folder").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0755u);
}

TEST_F(UnpackTest, BoundsWhatASmallArchiveBecomes) {
  const auto bomb = [](HostileArchive& a) { a.Add("zeros", AE_IFREG, std::string(64 << 20, '\0')); };
  const absl::Status bytes = Unpack(bomb, {.max_bytes = 1 << 20});
  EXPECT_EQ(bytes.code(), absl::StatusCode::kOutOfRange);
  EXPECT_LT(fs::file_size(file_ / "archive"), 1u << 20);
  EXPECT_LE(fs::file_size(file_ / "outer/to/zeros"), 1u << 20);
}

TEST_F(UnpackTest, BoundsTheNumberOfFilesWithTheFoldersThatTheyImply) {
  const absl::Status files =
      Unpack([](HostileArchive& a) { a.Add("a/b/c/d/e", AE_IFREG, "x"); }, {.max_files = 4});
  EXPECT_EQ(files.code(), absl::StatusCode::kOutOfRange);
  std::string deep;
  for (int i = 0; i < 500; ++i) deep += "d/";
  ExpectRefused([&](HostileArchive& a) { a.Add(deep + "f", AE_IFREG, "x"); }, "too deep");
}

TEST_F(UnpackTest, TakesWhatIsCompressedByGzip) {
  { HostileArchive(file_ / "archive", /*gzip=*/true).Add("a/b", AE_IFREG, "text", 0755); }
  fs::create_directories(file_ / "to");
  ASSERT_TRUE(UnpackArchive(file_ / "archive", file_ / "to", {}).ok());
  EXPECT_EQ(file_.Read("to/a/b"), "text");
}

TEST_F(UnpackTest, RefusesWhatIsNoArchive) {
  file_.Write("archive", "no archive at all");
  fs::create_directories(file_ / "to");
  EXPECT_EQ(UnpackArchive(file_ / "archive", file_ / "to", {}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(UnpackArchive(file_ / "none", file_ / "to", {}).code(), absl::StatusCode::kNotFound);
}

TEST_F(UnpackTest, SeesThatAnArchiveIsCutOffWithinAFile) {
  ASSERT_TRUE(Unpack([](HostileArchive& a) {
                std::string noise(1 << 20, '\0');
                for (size_t i = 0; i < noise.size(); ++i)
                  noise[i] = static_cast<char>(i * i * 2654435761u >> 13);
                a.Add("f", AE_IFREG, noise);
              }).ok());
  fs::resize_file(file_ / "archive", fs::file_size(file_ / "archive") / 2);
  fs::remove_all(file_ / "outer/to");
  fs::create_directories(file_ / "outer/to");
  EXPECT_EQ(UnpackArchive(file_ / "archive", file_ / "outer/to", {}).code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace adaptdl::archive
