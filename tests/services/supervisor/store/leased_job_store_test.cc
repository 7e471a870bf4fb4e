// A new leader takes the state over from one that is stopped and still holds the database, and loses nothing
// that was acknowledged.

#include "services/supervisor/store/leased_job_store.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "libs/base/random_id.h"
#include "services/supervisor/store/fenced_job_store.h"
#include "services/supervisor/store/restore.h"
#include "tests/services/supervisor/job_records.h"

namespace adaptdl::supervisor {
namespace {

constexpr int kLost = 3;

WriteBatch BatchWithJob(int64_t sequence) {
  WriteBatch batch;
  batch.put_jobs = {MakeJob(sequence)};
  return batch;
}

// A supervisor's hold on its state: the lease and the store.
struct Leader {
  RealSteadyClock steady;
  RealClock wall;
  std::unique_ptr<FileLease> lease;
  std::unique_ptr<SqliteJobStore> store;

  absl::Status Begin(const std::string& folder) {
    FileLeaseOptions options;
    options.folder = folder;
    options.duration = absl::Milliseconds(500);
    options.renew_period = absl::Milliseconds(50);
    options.lost = [](const std::string&) { _exit(kLost); };
    lease = *FileLease::Create(options, &steady, &wall);
    while (true) {
      const absl::StatusOr<bool> acquired = lease->TryAcquire();
      if (!acquired.ok()) return acquired.status();
      if (*acquired) break;
      absl::SleepFor(absl::Milliseconds(5));
    }
    lease->StartRenewal();
    SqliteJobStoreOptions store_options;
    store_options.folder = folder;
    store_options.busy_timeout = absl::ZeroDuration();
    absl::StatusOr<std::unique_ptr<SqliteJobStore>> opened = OpenLeasedStore(store_options, lease.get());
    if (!opened.ok()) return opened.status();
    store = *std::move(opened);
    return absl::OkStatus();
  }
};

class LeasedJobStoreTest : public testing::Test {
 protected:
  ~LeasedJobStoreTest() override {
    if (child_ > 0) {
      kill(child_, SIGKILL);
      waitpid(child_, nullptr, 0);
    }
    std::filesystem::remove_all(folder_);
  }

  // Runs `life` in a process of its own, which tells numbers by Tell().
  void Start(const std::function<void()>& life) {
    ASSERT_EQ(pipe(ends_), 0);
    child_ = fork();
    ASSERT_GE(child_, 0);
    if (child_ == 0) {
      life();
      _exit(0);
    }
    close(ends_[1]);
  }
  void Tell(int64_t number) const {
    if (write(ends_[1], &number, sizeof(number)) != sizeof(number)) _exit(1);
  }
  // -1: it ended.
  int64_t Hear() const {
    int64_t number = 0;
    return read(ends_[0], &number, sizeof(number)) == sizeof(number) ? number : -1;
  }
  void AwaitStop() const {
    int status = 0;
    ASSERT_EQ(waitpid(child_, &status, WUNTRACED), child_);
    ASSERT_TRUE(WIFSTOPPED(status));
  }
  int AwaitEnd() {
    int status = 0;
    EXPECT_EQ(waitpid(std::exchange(child_, 0), &status, 0) > 0, true);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  static int64_t Jobs(SqliteJobStore* store) {
    return static_cast<int64_t>(store->Load(absl::Now())->jobs.size());
  }
  std::vector<std::string> Databases() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      if (entry.path().extension() == ".db") names.push_back(entry.path().filename().string());
    }
    return names;
  }

  const std::string folder_ = absl::StrCat(testing::TempDir(), "/leased-", RandomHex(8));
  pid_t child_ = 0;
  int ends_[2] = {-1, -1};
};

TEST_F(LeasedJobStoreTest, AStateIsTakenFromALeaderThatEnded) {
  {
    Leader first;
    ASSERT_TRUE(first.Begin(folder_).ok());
    ASSERT_TRUE(first.store->Commit(BatchWithJob(1)).ok());
    first.store.reset();
  }
  Leader second;
  ASSERT_TRUE(second.Begin(folder_).ok());
  EXPECT_EQ(Jobs(second.store.get()), 1);
  EXPECT_EQ(second.lease->database(), "supervisor.db");
}

TEST_F(LeasedJobStoreTest, AStateIsTakenFromALeaderThatWasKilled) {
  Start([this] {
    Leader leader;
    if (!leader.Begin(folder_).ok()) _exit(1);
    for (int64_t i = 1;; ++i) {
      if (leader.store->Commit(BatchWithJob(i)).ok()) Tell(i);
    }
  });
  while (Hear() < 10) {
  }
  kill(child_, SIGKILL);
  int64_t acknowledged = 10;
  for (int64_t last = 0; (last = Hear()) > 0;) acknowledged = last;
  AwaitEnd();
  Leader second;
  ASSERT_TRUE(second.Begin(folder_).ok());
  EXPECT_GE(Jobs(second.store.get()), acknowledged);
  EXPECT_EQ(second.lease->database(), "supervisor.db");
}

TEST_F(LeasedJobStoreTest, ALeaderThatIsStoppedInATransactionIsReplaced) {
  Start([this] {
    Leader leader;
    if (!leader.Begin(folder_).ok()) _exit(1);
    for (int64_t i = 1; i <= 10; ++i) {
      if (!leader.store->Commit(BatchWithJob(i)).ok()) _exit(1);
    }
    leader.store.reset();
    // What the store does inside of a commit, with a stop in the middle: pages of the transaction are in the
    // log already, since the cache is too small for them.
    absl::StatusOr<Database> database = Database::Open(folder_ + "/supervisor.db");
    for (const char* sql :
         {"PRAGMA locking_mode = EXCLUSIVE", "PRAGMA journal_mode = WAL", "PRAGMA cache_size = 1"}) {
      if (!database->Query(sql).ok()) _exit(1);
    }
    absl::Status status =
        database->Execute("INSERT INTO nodes (node_id, session_id, node) VALUES ('n', 1, '')");
    status.Update(
        database->Execute("BEGIN IMMEDIATE; DELETE FROM jobs; UPDATE nodes SET node = zeroblob(1000000)"));
    if (!status.ok()) _exit(1);
    raise(SIGSTOP);
    // It goes on after the take-over, before it finds out: commits, moves its log to its file, removes the
    // log.
    status = database->Execute("COMMIT; PRAGMA wal_checkpoint(TRUNCATE)");
    if (!status.ok()) _exit(1);
    database = absl::CancelledError();
    Tell(1);
    while (true) pause();
  });
  AwaitStop();
  Leader second;
  const absl::Status status = second.Begin(folder_);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(Jobs(second.store.get()), 10);
  EXPECT_EQ(second.store->Load(absl::Now())->nodes.size(), 1u);
  EXPECT_EQ(second.lease->database(), "supervisor-2.db");
  EXPECT_EQ(Databases(), std::vector<std::string>{"supervisor-2.db"});
  ASSERT_TRUE(second.store->Commit(BatchWithJob(11)).ok());
  kill(child_, SIGCONT);
  // Its thread that renews the lease ends it, at any point of what it does.
  while (Hear() > 0) {
  }
  EXPECT_EQ(AwaitEnd(), kLost);
  ASSERT_TRUE(second.store->Commit(BatchWithJob(12)).ok());
  second.store.reset();
  second.lease.reset();
  Leader third;
  ASSERT_TRUE(third.Begin(folder_).ok());
  EXPECT_EQ(Jobs(third.store.get()), 12);
  EXPECT_EQ(third.lease->database(), "supervisor-2.db");
}

// Stopped wherever it happens to be.
TEST_F(LeasedJobStoreTest, NothingAcknowledgedIsLostAndNothingIsAcknowledgedAfterwards) {
  int64_t jobs = 0;
  for (int round = 0; round < 5; ++round) {
    Start([&] {
      Leader leader;
      if (!leader.Begin(folder_).ok()) _exit(1);
      FileLease* lease = leader.lease.get();
      FencedJobStore store(std::move(leader.store), lease);
      for (int64_t i = jobs + 1;; ++i) {
        if (store.Commit(BatchWithJob(i)).ok() && store.Sync().ok()) Tell(i);
      }
    });
    int64_t acknowledged = jobs;
    while (acknowledged < jobs + 20 + 7 * round) acknowledged = Hear();
    kill(child_, SIGSTOP);
    AwaitStop();
    Leader second;
    const absl::Status status = second.Begin(folder_);
    ASSERT_TRUE(status.ok()) << status;
    const int64_t found = Jobs(second.store.get());
    kill(child_, SIGCONT);
    for (int64_t last = 0; (last = Hear()) > 0;) acknowledged = last;
    EXPECT_EQ(AwaitEnd(), kLost);
    EXPECT_GE(found, acknowledged);
    EXPECT_LE(found, acknowledged + 1);
    ASSERT_TRUE(second.store->Commit(BatchWithJob(found + 1)).ok());
    jobs = found + 1;
    EXPECT_EQ(Databases().size(), 1u);
  }
}

TEST_F(LeasedJobStoreTest, ADatabaseThatNoFormerLeaderHoldsIsNotCopied) {
  SqliteJobStoreOptions options;
  options.folder = folder_;
  std::filesystem::create_directories(folder_);
  // A supervisor of a version without leases.
  Start([&] {
    const auto store = SqliteJobStore::Open(options);
    Tell(1);
    while (true) pause();
  });
  Hear();
  Leader leader;
  EXPECT_EQ(leader.Begin(folder_).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Databases(), std::vector<std::string>{"supervisor.db"});
}

TEST_F(LeasedJobStoreTest, CopiesThatWereNotFinishedAreRemoved) {
  {
    Leader first;
    ASSERT_TRUE(first.Begin(folder_).ok());
    first.store.reset();
  }
  // Number 1 made none; number 7 has not been yet.
  for (const char* name : {"supervisor-1.db", "supervisor-1.db-wal", "supervisor-7.db"}) {
    std::filesystem::copy_file(folder_ + "/supervisor.db", absl::StrCat(folder_, "/", name));
  }
  Leader second;
  ASSERT_TRUE(second.Begin(folder_).ok());
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/supervisor-1.db"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/supervisor-1.db-wal"));
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/supervisor-7.db"));
}

TEST_F(LeasedJobStoreTest, RestoreNeedsTheLease) {
  std::string backup;
  {
    Leader leader;
    ASSERT_TRUE(leader.Begin(folder_).ok());
    ASSERT_TRUE(leader.store->Commit(BatchWithJob(1)).ok());
    backup = *leader.store->Backup();
    ASSERT_TRUE(leader.store->Commit(BatchWithJob(2)).ok());
    const absl::Status refused = RestoreStore(backup, folder_, true, RealClock()).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
    leader.store.reset();
  }
  EXPECT_EQ(RestoreStore(backup, folder_, false, RealClock()).status().code(),
            absl::StatusCode::kAlreadyExists);
  const absl::StatusOr<Restored> restored = RestoreStore(backup, folder_, true, RealClock());
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_TRUE(std::filesystem::exists(restored->kept));
  Leader leader;
  ASSERT_TRUE(leader.Begin(folder_).ok());
  EXPECT_EQ(Jobs(leader.store.get()), 1);
  EXPECT_NE(leader.lease->database(), "supervisor.db");
}

class FakeLease final : public LeaderLease {
 public:
  int64_t term() const override { return 1; }
  bool Valid() const override { return true; }
  // Valid so many times.
  absl::Status AwaitValid(absl::Duration /*timeout*/) override {
    return valid-- > 0 ? absl::OkStatus() : absl::DeadlineExceededError("no lease");
  }
  void GiveUp(const std::string& why) override { reason = why; }

  int valid = 0;
  std::string reason;
};

TEST_F(LeasedJobStoreTest, ACommitIsNotBegunWithoutALease) {
  SqliteJobStoreOptions options;
  options.folder = folder_;
  FakeLease lease;
  FencedJobStore store(*SqliteJobStore::Open(options), &lease);
  EXPECT_EQ(store.Commit(BatchWithJob(1)).code(), absl::StatusCode::kUnavailable);
  // Commands may follow from an empty one.
  EXPECT_EQ(store.Commit(WriteBatch()).code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(store.Load(absl::Now())->jobs.empty());
  EXPECT_EQ(lease.reason, "");
  lease.valid = 2;
  EXPECT_TRUE(store.Commit(BatchWithJob(1)).ok());
  EXPECT_TRUE(store.Sync().ok());
}

TEST_F(LeasedJobStoreTest, ACommitThatCannotBeConfirmedIsTheLeadersLast) {
  SqliteJobStoreOptions options;
  options.folder = folder_;
  FakeLease lease;
  lease.valid = 1;
  FencedJobStore store(*SqliteJobStore::Open(options), &lease);
  EXPECT_TRUE(store.Commit(BatchWithJob(1)).ok());
  EXPECT_FALSE(store.Sync().ok());
  EXPECT_NE(lease.reason, "");
}

}  // namespace
}  // namespace adaptdl::supervisor
