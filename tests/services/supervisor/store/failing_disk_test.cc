// Whatever single operation of the disk fails, nothing that the store has acknowledged is lost, and nothing
// is acknowledged after a sync that has failed.

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "libs/base/random_id.h"
#include "services/supervisor/store/sqlite_job_store.h"
#include "tests/services/supervisor/job_records.h"
#include "tests/services/supervisor/store/disk_model.h"

namespace adaptdl::supervisor {
namespace {

namespace fs = std::filesystem;

constexpr int kJobs = 40;

class FailingDiskTest : public testing::Test {
 protected:
  FailingDiskTest() : root_(absl::StrCat(testing::TempDir(), "/failing-disk-", RandomHex(8))) {
    fs::create_directories(root_);
  }
  ~FailingDiskTest() override { fs::remove_all(root_); }

  // A life of a store in a new folder, whose operation number `number` fails, and a crash at its end. Returns
  // what it acknowledged.
  std::set<int64_t> Live(int number, int* after_failure) {
    folder_ = absl::StrCat(root_, "/", number);
    crashed_ = folder_ + "-crashed";
    fs::create_directories(folder_);
    fs::create_directories(crashed_);
    SqliteJobStoreOptions options;
    options.folder = folder_;
    // Often, and so that the log begins anew many times.
    options.checkpoint_pages = 10;
    ended_ = false;
    options.on_sync_failure = [this](const absl::Status& /*status*/) { ended_ = true; };
    std::set<int64_t> acknowledged;
    *after_failure = 0;
    disk_.FailAt(number);
    absl::StatusOr<std::unique_ptr<SqliteJobStore>> store = SqliteJobStore::Open(options);
    for (int64_t i = 1; i <= kJobs && store.ok(); ++i) {
      const bool had_failed = disk_.failed() == DiskModel::Operation::kSync;
      WriteBatch batch;
      batch.put_jobs = {MakeJob(i)};
      if (!(*store)->Commit(batch).ok() || !(*store)->Sync().ok()) continue;
      acknowledged.insert(i);
      if (had_failed) ++*after_failure;
    }
    if (store.ok() && disk_.failed() == DiskModel::Operation::kSync) {
      EXPECT_TRUE(ended_) << "number " << number;
    }
    disk_.CrashInto(folder_, crashed_);
    return acknowledged;
  }

  std::set<int64_t> AfterCrash() const {
    SqliteJobStoreOptions options;
    options.folder = crashed_;
    absl::StatusOr<std::unique_ptr<SqliteJobStore>> store = SqliteJobStore::Open(options);
    EXPECT_TRUE(store.ok()) << store.status();
    std::set<int64_t> jobs;
    if (!store.ok()) return jobs;
    const absl::StatusOr<StoreContents> contents = (*store)->Load(absl::Now());
    EXPECT_TRUE(contents.ok()) << contents.status();
    for (const JobRecord& job : contents->jobs) jobs.insert(job.sequence);
    return jobs;
  }

  const std::string root_;
  DiskModel disk_;
  std::string folder_;
  std::string crashed_;
  // Whether the last life would have ended the process.
  bool ended_ = false;
};

TEST_F(FailingDiskTest, NoFailureOfTheDiskLosesWhatWasAcknowledged) {
  std::map<DiskModel::Operation, int> failures;
  for (int number = 1;; ++number) {
    int after_failure = 0;
    const std::set<int64_t> acknowledged = Live(number, &after_failure);
    const DiskModel::Operation failed = disk_.failed();
    disk_.FailAt(0);
    EXPECT_EQ(after_failure, 0) << "number " << number << ": acknowledged after a sync that failed";
    const std::set<int64_t> found = AfterCrash();
    for (const int64_t job : acknowledged) {
      ASSERT_EQ(found.count(job), 1u) << "number " << number << ": job " << job << " was acknowledged";
    }
    fs::remove_all(folder_);
    fs::remove_all(crashed_);
    if (failed == DiskModel::Operation::kNone) {
      EXPECT_EQ(acknowledged.size(), static_cast<size_t>(kJobs));
      break;
    }
    ++failures[failed];
    // A write that fails costs its own commit, unless it moves the log into the database.
    if (failed == DiskModel::Operation::kWrite && !acknowledged.empty() && !ended_) {
      EXPECT_GE(acknowledged.size() + 1, static_cast<size_t>(kJobs)) << "number " << number;
    }
  }
  EXPECT_GT(failures[DiskModel::Operation::kWrite], 100);
  EXPECT_GT(failures[DiskModel::Operation::kSync], kJobs) << "those of checkpoints too";
}

}  // namespace
}  // namespace adaptdl::supervisor
