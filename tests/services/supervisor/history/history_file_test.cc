#include "services/supervisor/history/history_file.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/base/random_id.h"
#include "libs/messages/proto_time.h"

namespace adaptdl::supervisor {
namespace {

absl::Time Noon(double seconds) { return absl::FromUnixSeconds(1'000'000) + absl::Seconds(seconds); }

HistoryFile::Part PartOf(const std::string& uid, int begin, int count) {
  HistoryFile::Part part;
  part.uid = uid;
  part.head.resolution = absl::Seconds(1);
  part.head.changes.Add(Noon(0), {count, 1, v1::JOB_PHASE_RUNNING});
  for (int i = begin; i < begin + count; ++i) {
    v1::HistoryPoint& point = part.points.emplace_back();
    *point.mutable_begin() = messages::ToProto(Noon(i));
    *point.mutable_end() = messages::ToProto(Noon(i + 1));
    point.set_throughput(i);
  }
  return part;
}

class HistoryFileTest : public testing::Test {
 protected:
  HistoryFileTest() : folder_(absl::StrCat(testing::TempDir(), "/history-", RandomHex(8))) {}
  ~HistoryFileTest() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<HistoryFile> OpenFile() {
    auto file = HistoryFile::Open(folder_);
    EXPECT_TRUE(file.ok()) << file.status();
    return file.ok() ? *std::move(file) : nullptr;
  }
  std::string path() const { return folder_ + "/history.sqlite"; }

  const std::string folder_;
};

TEST_F(HistoryFileTest, KeepsWhatWasWritten) {
  {
    const auto file = OpenFile();
    ASSERT_TRUE(file->Write({PartOf("a", 0, 3), PartOf("b", 0, 1)}, {}).ok());
    ASSERT_TRUE(file->Write({PartOf("a", 3, 2)}, {}).ok());
  }
  const auto file = OpenFile();
  const auto head = file->ReadHead("a");
  ASSERT_TRUE(head.ok() && head->has_value()) << head.status();
  EXPECT_EQ((*head)->changes.last().allocation.replicas, 2);
  const auto points = file->ReadPoints("a");
  ASSERT_TRUE(points.ok()) << points.status();
  ASSERT_EQ(points->size(), 5u);
  EXPECT_EQ((*points)[4].throughput(), 4);
  EXPECT_EQ(file->ListUids()->size(), 2u);
  EXPECT_FALSE(file->ReadHead("c")->has_value());
  EXPECT_TRUE(file->ReadPoints("c")->empty());
}

TEST_F(HistoryFileTest, ReplacesAndDeletes) {
  const auto file = OpenFile();
  ASSERT_TRUE(file->Write({PartOf("a", 0, 3), PartOf("b", 0, 1)}, {}).ok());
  HistoryFile::Part part = PartOf("a", 10, 1);
  part.replaces = true;
  ASSERT_TRUE(file->Write({part}, {"b", "never there"}).ok());
  ASSERT_EQ(file->ReadPoints("a")->size(), 1u);
  EXPECT_EQ(file->ReadPoints("a")->at(0).throughput(), 10);
  EXPECT_FALSE(file->ReadHead("b")->has_value());
  EXPECT_TRUE(file->ReadPoints("b")->empty());
}

// A supervisor that was stopped, and one that has taken over.
TEST_F(HistoryFileTest, TwoMayHaveItOpenAndWhatOverlapsIsReadOnce) {
  const auto former = OpenFile();
  const auto next = OpenFile();
  ASSERT_TRUE(former->Write({PartOf("a", 0, 3)}, {}).ok());
  ASSERT_TRUE(next->Write({PartOf("a", 3, 3)}, {}).ok());
  ASSERT_TRUE(former->Write({PartOf("a", 4, 1)}, {}).ok());
  EXPECT_EQ(next->ReadPoints("a")->size(), 6u);
}

TEST_F(HistoryFileTest, NobodyElseMayReadIt) {
  OpenFile();
  EXPECT_EQ(std::filesystem::status(folder_).permissions(), std::filesystem::perms::owner_all);
}

TEST_F(HistoryFileTest, OneThatIsNoDatabaseIsSetAside) {
  std::filesystem::create_directories(folder_);
  std::ofstream(path()) << std::string(100'000, 'x');
  const auto file = OpenFile();
  ASSERT_NE(file, nullptr);
  EXPECT_TRUE(file->Write({PartOf("a", 0, 1)}, {}).ok());
  EXPECT_EQ(std::filesystem::file_size(path() + ".damaged"), 100'000u);
}

TEST_F(HistoryFileTest, OneOfANewerVersionIsSetAside) {
  OpenFile();
  {
    auto database = Database::Open(path());
    ASSERT_TRUE(database.ok());
    ASSERT_TRUE(database->Execute("PRAGMA user_version = 2").ok());
  }
  EXPECT_TRUE(OpenFile()->Write({PartOf("a", 0, 1)}, {}).ok());
  EXPECT_TRUE(std::filesystem::exists(path() + ".damaged"));
}

TEST_F(HistoryFileTest, DamageWithinIsAnErrorAndNoCrash) {
  {
    const auto file = OpenFile();
    std::vector<HistoryFile::Part> parts;
    for (int i = 0; i < 100; ++i) parts.push_back(PartOf(absl::StrCat("job-", i), 0, 20));
    ASSERT_TRUE(file->Write(parts, {}).ok());
  }
  {
    std::fstream bytes(path(), std::ios::in | std::ios::out | std::ios::binary);
    const auto size = static_cast<std::streamoff>(std::filesystem::file_size(path()));
    for (std::streamoff at = 4096; at < size; at += 64) {
      bytes.seekp(at);
      bytes << "garbage";
    }
  }
  const auto file = OpenFile();
  ASSERT_NE(file, nullptr);
  const absl::Status status = file->Write({PartOf("job-1", 20, 1)}, {"job-2"});
  EXPECT_TRUE(status.ok() || absl::IsDataLoss(status)) << status;
  for (int i = 0; i < 100; ++i) {
    const auto points = file->ReadPoints(absl::StrCat("job-", i));
    EXPECT_TRUE(points.ok() || absl::IsDataLoss(points.status())) << points.status();
  }
}

TEST_F(HistoryFileTest, ABlobThatIsNoMessageIsLeftOut) {
  const auto file = OpenFile();
  ASSERT_TRUE(file->Write({PartOf("a", 0, 3)}, {}).ok());
  {
    auto database = Database::Open(path());
    ASSERT_TRUE(database.ok());
    ASSERT_TRUE(database->Execute("INSERT INTO points (uid, points) VALUES ('a', x'ffffff')").ok());
    ASSERT_TRUE(database->Execute("UPDATE histories SET changes = x'ff', resolution = -1").ok());
  }
  EXPECT_EQ(file->ReadPoints("a")->size(), 3u);
  EXPECT_TRUE((*file->ReadHead("a"))->changes.empty());
  EXPECT_EQ((*file->ReadHead("a"))->resolution, absl::Seconds(1));
}

TEST_F(HistoryFileTest, AFolderThatCannotBeMadeIsAnError) {
  std::ofstream(folder_) << "a file";
  EXPECT_FALSE(HistoryFile::Open(folder_).ok());
}

}  // namespace
}  // namespace adaptdl::supervisor
