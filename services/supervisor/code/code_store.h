// The archives of jobs' folders, as files beside the state:
//
//   <folder>/<namespace>/<digest>        whole: its content has the digest
//   <folder>/<namespace>/<digest>.part   as far as it has come
//
// The time of a file's last change is when it was touched last: uploaded, asked for, or submitted with a job.
//
// What a job names stays as long as the job's record does, what none names until it was touched long ago. Only where a
// namespace has no room for another archive, more of it goes: first what no job names, then what only jobs name that have
// finished, which can't run again. What a job may still need never goes, and nothing does where it would not be enough.
//
// Of several supervisors of one state, only the one that leads uses the folder. One that has just lost the lead may
// still write a piece of an upload: it would be the same bytes, since the digest is, and only what has the digest counts.
//
// Thread-safe. Waits for the disk; only Find(), OpenWhole() and Require() do little of that. Errors are those that clients see.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_CODE_CODE_STORE_H_
#define ADAPTDL_SERVICES_SUPERVISOR_CODE_CODE_STORE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "adaptdl/v1/job.pb.h"
#include "libs/base/clock.h"
#include "libs/base/mutex.h"
#include "libs/base/unique_fd.h"
#include "services/supervisor/lease/leader_lease.h"

namespace adaptdl::supervisor {

struct CodeStoreOptions {
  // Made if need be. Empty: there is no store.
  std::string folder;
  // Of one archive, and of all of a namespace, in bytes.
  int64_t max_archive_bytes = int64_t{2} << 30;
  int64_t max_namespace_bytes = int64_t{20} << 30;
  // How long archives stay that no job names.
  absl::Duration keep = absl::Hours(24);
};

// Namespace and digest.
using CodeKey = std::pair<std::string, std::string>;

// What a supervisor without a store says. UNIMPLEMENTED.
absl::Status NoCodeStore();

class CodeStore {
 public:
  // Finds what is there. `clock` and `lease` outlive it; `lease` null: there is no other supervisor.
  static absl::StatusOr<std::unique_ptr<CodeStore>> Open(const CodeStoreOptions& options, const Clock* clock,
                                                         const LeaderLease* lease);

  struct Progress {
    int64_t received = 0;
    bool complete = false;
  };
  // How much of it is there; touches it.
  absl::StatusOr<Progress> Find(const CodeKey& key);
  int64_t max_archive_bytes() const { return options_.max_archive_bytes; }

  // One that is on its way. For one thread at a time.
  class Upload {
   public:
    // Whether it was whole before.
    bool complete() const { return !file_.valid(); }

   private:
    friend class CodeStore;
    CodeKey key_;
    UniqueFd file_;
    int64_t number_ = 0;
    int64_t size_ = 0;
    int64_t received_ = 0;
  };
  // Takes over from another upload of the same archive, which is as good as gone. ABORTED: it does not begin where that
  // has ended. RESOURCE_EXHAUSTED: it is too large, or the namespace has no room for it.
  absl::StatusOr<std::unique_ptr<Upload>> Begin(const CodeKey& key, int64_t size, int64_t offset);
  // ABORTED: another upload has taken over. OUT_OF_RANGE: it goes beyond the size.
  absl::Status Append(Upload* upload, absl::string_view data);
  // What there is now. If that is all of it, it is on disk and complete; INVALID_ARGUMENT: it has another digest, and is
  // void.
  absl::StatusOr<Progress> Finish(Upload* upload);

  struct Whole {
    UniqueFd file;
    int64_t size = 0;
  };
  // NOT_FOUND: it is not there, or not whole. Touches it.
  absl::StatusOr<Whole> OpenWhole(const CodeKey& key);

  // For a job that is to be submitted: touches its archive. FAILED_PRECONDITION: it is not there, or not whole.
  absl::Status Require(const std::string& name_space, const v1::CodeArchive& code);

  // Somebody has read one that is whole, and it had another digest: it can be uploaded anew.
  void Drop(const CodeKey& key);

  // Removes what was touched long ago and is not `named` by any job. `needed`: by jobs that have not finished. Before the
  // first upload, and now and then.
  void Collect(std::set<CodeKey> named, std::set<CodeKey> needed);

 private:
  struct Entry {
    // Of the whole archive, as far as known.
    int64_t size = 0;
    int64_t received = 0;
    bool complete = false;
    absl::Time touched;
    // The upload that may go on with it, and whether it writes, or checks what was written, without the lock.
    int64_t number = 0;
    bool writing = false;
  };

  CodeStore(const CodeStoreOptions& options, const Clock* clock, const LeaderLease* lease)
      : options_(options), clock_(clock), lease_(lease) {}

  absl::Status Load() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LoadNamespace(const std::string& name_space) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string PathOf(const CodeKey& key, bool complete) const;
  absl::Status CheckUpload(const CodeKey& key, int64_t size, int64_t offset) const;
  // Whether it must not go now, whatever jobs name.
  bool IsInUse(const Entry& entry) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The entry, once nobody writes to it.
  std::map<CodeKey, Entry>::iterator AwaitWriter(const CodeKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status BeginWriting(const Upload& upload);
  void EndWriting(const Upload& upload, bool complete);
  // Makes the part the whole archive, if it has the digest.
  absl::Status Keep(const Upload& upload) const;
  // Makes room for the whole archive in its namespace.
  absl::Status MakeRoom(const CodeKey& key, int64_t size) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Notes that it is used now; the file's time is written no more often than needed.
  void Touch(const CodeKey& key, Entry* entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Stamp(const CodeKey& key, Entry* entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Remove(const CodeKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether nobody else leads, as far as that can be known.
  bool Leads() const { return lease_ == nullptr || lease_->Valid(); }

  const CodeStoreOptions options_;
  const Clock* const clock_;
  const LeaderLease* const lease_;

  Mutex mutex_;
  // Some entry is not being written any more.
  CondVar changed_;
  std::map<CodeKey, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  // By jobs, as of the last Collect().
  std::set<CodeKey> named_ ABSL_GUARDED_BY(mutex_);
  std::set<CodeKey> needed_ ABSL_GUARDED_BY(mutex_);
  int64_t uploads_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_CODE_CODE_STORE_H_
