// Folders that come with jobs, on a node: fetched once, checked, of each job its own, and gone when there are too many.

#include "services/worker/code/job_code.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/archive/digest.h"
#include "libs/base/manual_clock.h"
#include "tests/services/worker/code/fake_code_source.h"
#include "tests/services/worker/testing.h"

namespace adaptdl::worker {
namespace {

namespace fs = std::filesystem;

using ::testing::HasSubstr;

constexpr char kDamage[] = "something else than was packed";

bool Wanted() { return true; }

class JobCodeTest : public ::testing::Test {
 protected:
  JobCodeTest() { Restart(); }

  // As a worker that was killed, and the next one.
  void Restart() { code_ = std::make_unique<JobCode>(options_, &source_, &clock_); }

  // A folder with a file of this content, and much that can't be compressed.
  v1::CodeArchive Pack(const std::string& content) {
    const TempFolder folder;
    fs::create_directory(folder / "lib");
    WriteFile(folder / "train.py", content);
    std::string noise;
    for (int i = 0; i < 2000; ++i) noise += static_cast<char>((i * i * 7919 + i * content.size()) >> 4);
    WriteFile(folder / "lib/noise", noise);
    return source_.Add(folder.path());
  }
  CodeFailure Prepare(const v1::CodeArchive& archive, const std::string& job = "default/a-1",
                      std::optional<archive::UnpackOptions::Owner> owner = std::nullopt,
                      const std::function<bool()>& wanted = Wanted) {
    return code_->Prepare({job, {job.substr(0, job.find('/')), archive.digest(), archive.size()}}, owner,
                          wanted);
  }
  std::string Program(const std::string& job = "default/a-1") const {
    return ReadFile(code_->FolderOf(job) + "/train.py");
  }
  std::string ArchivePath(const v1::CodeArchive& archive, const std::string& name_space = "default") const {
    return folder_ / absl::StrCat("code/", name_space, "/", archive.digest());
  }
  void Stamp(const std::string& path, int hours_ago) const {
    const timespec time = absl::ToTimespec(absl::Now() - absl::Hours(hours_ago));
    const timespec times[2] = {time, time};
    ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0) << path;
  }

  TempFolder folder_;
  FakeCodeSource source_;
  ManualClock clock_;
  CodeOptions options_ = {.archives = folder_ / "code", .folder = folder_ / "job-code"};
  std::unique_ptr<JobCode> code_;
};

TEST_F(JobCodeTest, OneFetchIsEnoughForAllJobsOfANamespace) {
  const v1::CodeArchive archive = Pack("one");
  ASSERT_TRUE(Prepare(archive).ok());
  ASSERT_TRUE(Prepare(archive).ok());
  ASSERT_TRUE(Prepare(archive, "default/b-2").ok());
  EXPECT_EQ(source_.calls(), 1);
  EXPECT_EQ(Program("default/b-2"), "one");
  // Another namespace's is not used, wherever it came from.
  ASSERT_TRUE(Prepare(archive, "other/a-1").ok());
  EXPECT_EQ(source_.calls(), 2);
  // A job changes its own.
  WriteFile(code_->FolderOf("default/a-1") + "/train.py", "changed");
  EXPECT_EQ(Program("default/b-2"), "one");
  ASSERT_TRUE(Prepare(archive, "default/c-3").ok());
  EXPECT_EQ(Program("default/c-3"), "one");
}

TEST_F(JobCodeTest, ManyReplicasThatComeAtOnceFetchOnce) {
  const v1::CodeArchive archive = Pack("one");
  std::vector<std::thread> replicas;
  for (int i = 0; i < 16; ++i) {
    replicas.emplace_back([&, i] {
      const std::string job = absl::StrCat("default/job-", i % 4);
      const CodeFailure failure = Prepare(archive, job);
      EXPECT_TRUE(failure.ok()) << failure.status;
      EXPECT_EQ(Program(job), "one");
    });
  }
  for (std::thread& replica : replicas) replica.join();
  EXPECT_EQ(source_.bytes(), archive.size());
}

TEST_F(JobCodeTest, AFetchGoesOnWhereItBrokeOff) {
  const v1::CodeArchive archive = Pack("one");
  source_.BreakAfter(3, absl::UnavailableError("gone"));
  ASSERT_TRUE(Prepare(archive).ok());
  EXPECT_EQ(source_.calls(), 2);
  EXPECT_EQ(source_.bytes(), archive.size());
}

TEST_F(JobCodeTest, TheNextWorkerGoesOnAndBelievesNothing) {
  const v1::CodeArchive archive = Pack("one");
  source_.BreakAfter(3, absl::CancelledError("the worker ends"));
  EXPECT_EQ(Prepare(archive).cause, Cause::kStorage);
  fs::create_directories(folder_ / "job-code/.new-12345678/half");
  Restart();
  ASSERT_TRUE(Prepare(archive).ok());
  EXPECT_EQ(source_.bytes(), archive.size());
  code_->Trim([] { return std::set<std::string>(); });
  EXPECT_FALSE(fs::exists(folder_ / "job-code/.new-12345678"));
  EXPECT_EQ(Program(), "one");
  // What is there by now is no archive any more: a disk has failed, say.
  WriteFile(ArchivePath(archive), kDamage);
  Restart();
  ASSERT_TRUE(Prepare(archive, "default/b-2").ok());
  EXPECT_EQ(Program("default/b-2"), "one");
  // Nor is what was read of it.
  fs::remove(ArchivePath(archive));
  WriteFile(ArchivePath(archive) + ".part", kDamage);
  ASSERT_TRUE(Prepare(archive, "default/c-3").ok());
  EXPECT_EQ(Program("default/c-3"), "one");
}

TEST_F(JobCodeTest, WhatHasAnotherDigestIsRefused) {
  v1::CodeArchive archive = Pack("one");
  std::string content = source_.Get(archive.digest());
  content[content.size() / 2] ^= 1;
  source_.Put(archive.digest(), content);
  const CodeFailure failure = Prepare(archive);
  EXPECT_EQ(failure.cause, Cause::kJob);
  EXPECT_EQ(failure.status.code(), absl::StatusCode::kDataLoss);
  EXPECT_FALSE(fs::exists(code_->FolderOf("default/a-1")));
  for (const std::string& wrong : {content + "more", content.substr(1)}) {
    source_.Put(archive.digest(), wrong);
    EXPECT_EQ(Prepare(archive).cause, Cause::kJob);
  }
}

TEST_F(JobCodeTest, WhatIsNoArchiveIsTheJobsFault) {
  const std::string text = "no archive";
  archive::Digester digester;
  digester.Add(text);
  v1::CodeArchive archive;
  archive.set_digest(digester.Finish());
  archive.set_size(static_cast<int64_t>(text.size()));
  source_.Put(archive.digest(), text);
  const CodeFailure failure = Prepare(archive);
  EXPECT_EQ(failure.cause, Cause::kJob);
  EXPECT_THAT(failure.status.message(), HasSubstr("unpack"));
  EXPECT_FALSE(fs::exists(code_->FolderOf("default/a-1")));
}

TEST_F(JobCodeTest, ASilentSupervisorIsNobodysFault) {
  const v1::CodeArchive archive = Pack("one");
  source_.FailAlways(absl::UnavailableError("nobody there"));
  const absl::Time begin = clock_.Steady();
  const CodeFailure failure = Prepare(archive);
  EXPECT_EQ(failure.cause, Cause::kStorage);
  EXPECT_THAT(failure.status.message(), HasSubstr("nobody there"));
  EXPECT_LE(clock_.Steady() - begin, options_.timeout);
  source_.FailAlways(absl::OkStatus());
  EXPECT_TRUE(Prepare(archive).ok());
}

TEST_F(JobCodeTest, ANodeWithoutADiskIsToBlame) {
  WriteFile(folder_ / "code", "no folder");
  EXPECT_EQ(Prepare(Pack("one")).cause, Cause::kNode);
}

TEST_F(JobCodeTest, OneThatIsCalledOffLetsTheNextOneGoOn) {
  const v1::CodeArchive archive = Pack("one");
  int pieces = 0;
  const CodeFailure failure = Prepare(archive, "default/a-1", std::nullopt, [&] { return ++pieces <= 3; });
  EXPECT_FALSE(failure.ok());
  ASSERT_TRUE(Prepare(archive).ok());
  // No piece was read twice but the one that was refused.
  EXPECT_LE(source_.bytes(), archive.size());
}

TEST_F(JobCodeTest, TheFolderBelongsToTheJobsUser) {
  if (geteuid() != 0) GTEST_SKIP() << "NOT TESTED: only root can give files away";
  const v1::CodeArchive archive = Pack("one");
  ASSERT_TRUE(Prepare(archive, "default/a-1", archive::UnpackOptions::Owner{1234, 1235}).ok());
  struct stat info = {};
  for (const std::string path : {"", "/lib", "/train.py"}) {
    ASSERT_EQ(lstat((code_->FolderOf("default/a-1") + path).c_str(), &info), 0);
    EXPECT_EQ(info.st_uid, 1234u);
    EXPECT_EQ(info.st_gid, 1235u);
    EXPECT_EQ(info.st_mode & 07077, path.empty() ? 0u : info.st_mode & 07077);
  }
  for (const std::string path : {"job-code", "job-code/default"}) {
    ASSERT_EQ(lstat((folder_ / path).c_str(), &info), 0);
    EXPECT_EQ(info.st_uid, 0u);
    EXPECT_EQ(info.st_mode & 07777, 0711u);
  }
  ASSERT_EQ(lstat((folder_ / "code").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0700u);
  // Of a worker that gave the job another user.
  ASSERT_TRUE(Prepare(archive, "default/a-1", archive::UnpackOptions::Owner{4321, 4321}).ok());
  ASSERT_EQ(lstat((code_->FolderOf("default/a-1") + "/train.py").c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, 4321u);
}

TEST_F(JobCodeTest, WhatNothingRunsInGoesOldestFirst) {
  options_.max_unused_bytes = 30'000;
  Restart();
  const v1::CodeArchive archive = Pack("one");
  for (const std::string job : {"default/old", "default/older", "default/used", "default/new"}) {
    ASSERT_TRUE(Prepare(archive, job).ok());
  }
  Stamp(ArchivePath(archive), 1);
  Stamp(code_->FolderOf("default/old"), 2);
  Stamp(code_->FolderOf("default/older"), 3);
  Stamp(code_->FolderOf("default/used"), 4);
  const auto used = [] { return std::set<std::string>{"default/used"}; };
  // Each has two blocks of files at least.
  EXPECT_LE(code_->Trim(used), 30'000);
  EXPECT_TRUE(fs::exists(code_->FolderOf("default/used")));
  EXPECT_TRUE(fs::exists(code_->FolderOf("default/new")));
  EXPECT_FALSE(fs::exists(code_->FolderOf("default/older")));
  options_.max_unused_bytes = 0;
  Restart();
  EXPECT_EQ(code_->Trim(used), 0);
  EXPECT_FALSE(fs::exists(ArchivePath(archive)));
  EXPECT_EQ(Program("default/used"), "one");
}

TEST_F(JobCodeTest, AnArchiveThatIsBeingFetchedStays) {
  options_.max_unused_bytes = 0;
  Restart();
  const v1::CodeArchive archive = Pack("one");
  source_.OnRead([&] { code_->Trim([] { return std::set<std::string>(); }); });
  ASSERT_TRUE(Prepare(archive).ok());
  EXPECT_EQ(Program(), "one");
}

TEST_F(JobCodeTest, GoesWithTheJob) {
  ASSERT_TRUE(Prepare(Pack("one")).ok());
  fs::create_directory(folder_ / "precious");
  fs::create_directory_symlink(folder_ / "precious", code_->FolderOf("default/a-1") + "/link");
  WriteFile(folder_ / "precious/file", "stays");
  EXPECT_TRUE(code_->Remove("default/a-1").ok());
  EXPECT_FALSE(fs::exists(code_->FolderOf("default/a-1")));
  EXPECT_EQ(ReadFile(folder_ / "precious/file"), "stays");
  EXPECT_TRUE(code_->Remove("default/a-1").ok());
}

}  // namespace
}  // namespace adaptdl::worker
