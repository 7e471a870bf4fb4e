// The lease as files beside the state, without locks, so that it works on any file system on which link()
// does:
//
//   <folder>/lease/leader-00000000000000000007     one file per leadership; the one with the largest number
//   counts
//
// The first line is a counter, which the holder alone increases, in place, each `renew_period`. The rest says
// who holds the lease, its term, and which file is the database.
//
//          free ──1──▶ held ──2──▶ expired ──3──▶ held (by the same, with a new term)
//                        │           └──4──▶ lost
//                        └──5──▶ free
//
// 1. Nobody holds it: there is no file, its holder gave it back or is a dead process of this machine, or it
// has not
//    changed for the holder's `duration` on the contender's own clock. The contender makes the next file with
//    link(), which succeeds for one of several only.
// 2. The holder did not renew it within `duration`, counted from the beginning of the last renewal that was
// done
//    in time. Until then nobody else can have found it unchanged for `duration`, so the holder is alone.
// 3. Nobody else has taken it meanwhile: the holder makes the next file itself.
// 4. Somebody has: Options::lost is called.
// 5. Destruction.
//
// No two machines' or processes' clocks are compared. The term is the time in milliseconds, or one more than
// the last one: it grows also where the state was moved to another folder.
//
// Thread-safe, but for one TryAcquire() or Acquire() at a time.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_LEASE_FILE_LEASE_H_
#define ADAPTDL_SERVICES_SUPERVISOR_LEASE_FILE_LEASE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/base/clock.h"
#include "libs/base/mutex.h"
#include "services/supervisor/lease/holder_identity.h"
#include "services/supervisor/lease/leader_lease.h"
#include "services/supervisor/lease/steady_clock.h"

namespace adaptdl::supervisor {

// What a file of the lease says.
struct LeaseRecord {
  // Number of the file.
  int64_t sequence = 0;
  int64_t term = 0;
  // Unique for each leadership.
  std::string holder;
  HolderIdentity process;
  // How long it lasts without renewal.
  absl::Duration duration;
  // How often it was renewed.
  uint64_t renewals = 0;
  // Where the holder serves; for people.
  std::string address;
  // Name of the database's file in the state folder. Empty: the record before says it.
  std::string database;
  // Whether the holder gave it back.
  bool done = false;
};

struct FileLeaseOptions {
  // The supervisor's --state-dir; made if it does not exist.
  std::string folder;
  // How long a lease lasts without renewal.
  absl::Duration duration = absl::Milliseconds(2500);
  // How often the thread of StartRenewal() renews it. Well below `duration`.
  absl::Duration renew_period = absl::Milliseconds(500);
  std::string address;
  // Called once, from whichever thread finds out, when somebody else has the lease, or when GiveUp() is
  // called. In production it ends the process: nothing that was begun may be finished.
  std::function<void(const std::string& why)> lost = [](const std::string&) {};
  // Of the holder; tests choose it.
  HolderIdentity process = ThisProcess();
};

class FileLease final : public LeaderLease {
 public:
  // The database of a state that no lease has named yet.
  static constexpr char kFirstDatabase[] = "supervisor.db";

  // Takes nothing yet. The clocks outlive the lease.
  static absl::StatusOr<std::unique_ptr<FileLease>> Create(const FileLeaseOptions& options,
                                                           const SteadyClock* steady, const Clock* wall);
  // Ends the renewal, and gives the lease back if it is held.
  ~FileLease() override;

  // Looks once, and takes the lease if it is free. A silent holder is found out by looking again and again.
  // True: this one leads now; renew it.
  absl::StatusOr<bool> TryAcquire();
  // Who held the lease when TryAcquire() looked last. Nothing: nobody.
  std::optional<LeaseRecord> seen() const;

  // Renews it, or takes it again if it expired and nobody else has it. FAILED_PRECONDITION: somebody has.
  // UNAVAILABLE: the files can't be written.
  absl::Status Renew();
  // Starts the thread that does so.
  void StartRenewal();

  // Name of the database's file, below the folder.
  std::string database() const;
  // From now on that is another one; durable when it returns OK. FAILED_PRECONDITION: the lease is lost, and
  // whoever has it may go on with the file of before.
  absl::Status SetDatabase(const std::string& name);
  // Number of the lease's file: no two leaderships of this folder have the same.
  int64_t sequence() const;
  // Whether one before went silent without giving it back, and may still have the database open.
  bool predecessor_may_live() const { return predecessor_may_live_; }

  int64_t term() const override;
  bool Valid() const override;
  absl::Status AwaitValid(absl::Duration timeout) override;
  void GiveUp(const std::string& why) override;

 private:
  FileLease(const FileLeaseOptions& options, const SteadyClock* steady, const Clock* wall);

  std::string PathOf(int64_t sequence) const;
  // Numbers of the files that there are; 0: none.
  absl::StatusOr<int64_t> NewestSequence() const;
  absl::StatusOr<LeaseRecord> Read(int64_t sequence, std::string* content) const;
  // The database that the newest record up to `sequence` names.
  absl::StatusOr<std::string> FindDatabase(int64_t sequence) const;
  // Whether a leader up to `sequence`, which did not give its lease back, may still have this database open.
  bool MayBeOpen(int64_t sequence, const std::string& database) const;
  bool IsFree(const LeaseRecord& newest, const std::string& content, absl::Duration now);
  // Makes file number `sequence`; false: somebody else has, or a later one.
  absl::StatusOr<bool> Make(int64_t sequence, int64_t last_term, const std::string& database)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // False: the lease's file is another one by now.
  absl::StatusOr<bool> TrySetDatabase(const std::string& name);
  absl::Status WriteCounter(bool done) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RemoveOld() const;
  absl::Status Lose(const std::string& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RenewUntilStopped();

  const FileLeaseOptions options_;
  const SteadyClock& steady_;
  const Clock& wall_;
  // Of a contender: what it saw last, and since when.
  std::string seen_content_;
  int64_t seen_sequence_ = 0;
  absl::Duration seen_since_;
  bool predecessor_may_live_ = false;

  // Guards the files, too. Valid() does not need it, so that a slow disk holds nobody up while the lease
  // lasts.
  mutable Mutex mutex_;
  CondVar changed_;
  LeaseRecord record_ ABSL_GUARDED_BY(mutex_);
  // Whether the file names the database.
  bool named_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<LeaseRecord> seen_ ABSL_GUARDED_BY(mutex_);
  int file_ ABSL_GUARDED_BY(mutex_) = -1;
  uint64_t counter_ ABSL_GUARDED_BY(mutex_) = 0;
  bool lost_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::atomic<int64_t> term_ = 0;
  // On the steady clock, in nanoseconds. 0: not held.
  std::atomic<int64_t> valid_until_ = 0;
  std::thread thread_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_LEASE_FILE_LEASE_H_
