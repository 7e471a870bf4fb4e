// The folders that travel with jobs, unpacked on this node:
//
//   <folder>/<namespace>/<job>-<uid>/...
//
// Each job has a copy of its own, without links to anything that another one has, and it belongs to the job's user alone:
// whatever a job does to its folder, no other job sees it. Its replicas on this node share it. It stays until the job is
// deleted, or is dropped when nothing runs in it and there are too many such folders and archives: then those that were
// needed longest ago go first.
//
// Thread-safe. Waits for the network and for disks.

#ifndef ADAPTDL_SERVICES_WORKER_CODE_JOB_CODE_H_
#define ADAPTDL_SERVICES_WORKER_CODE_JOB_CODE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/archive/unpack.h"
#include "libs/base/clock.h"
#include "libs/base/mutex.h"
#include "services/worker/code/archive_cache.h"
#include "services/worker/code/code_source.h"

namespace adaptdl::worker {

struct CodeOptions {
  // Of the archives, and of the jobs' folders. Absolute. Made when they are needed.
  std::string archives;
  std::string folder;
  // Of the archives and jobs' folders that no replica uses, together.
  int64_t max_unused_bytes = int64_t{10} << 30;
  // How long fetching an archive may take. It counts as the start of the replica, for which the supervisor waits ten
  // minutes.
  absl::Duration timeout = absl::Minutes(8);
};

class JobCode {
 public:
  // Both outlive it.
  JobCode(const CodeOptions& options, CodeSource* source, const Clock* clock);

  // Checked names: "<namespace>/<job>-<uid>", and what its folder is made of.
  struct Order {
    std::string job;
    ArchiveName archive;
  };
  std::string FolderOf(const std::string& job) const;

  // Has the job's folder made, unless it is there as the job needs it. `owner`: the job's user; none: the worker's.
  // `wanted` is asked now and then whether it is to go on.
  CodeFailure Prepare(const Order& order, const std::optional<archive::UnpackOptions::Owner>& owner,
                      const std::function<bool()>& wanted);

  // Of a job that nothing of is left on this node.
  absl::Status Remove(const std::string& job);

  // Removes what was left half-made, and jobs' folders of which `in_use` does not know the name, and archives, until these
  // have at most max_unused_bytes. Returns the bytes that are left of them. One call at a time. `in_use` is called with a
  // lock held that Prepare() takes.
  int64_t Trim(const std::function<std::set<std::string>()>& in_use);

 private:
  CodeFailure Make(const Order& order, const std::optional<archive::UnpackOptions::Owner>& owner,
                   const std::string& archive);
  // Moves the folder out of the way, where it is removed. Empty: it was not there.
  absl::StatusOr<std::string> MoveAway(const std::string& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // A folder, or an archive, that nothing runs in.
  struct Unused;
  std::vector<Unused> ListUnused(const std::set<std::string>& used);
  bool Drop(const Unused& unused, const std::function<std::set<std::string>()>& in_use);

  const CodeOptions options_;
  ArchiveCache archives_;

  Mutex mutex_;
  CondVar changed_;
  // Jobs whose folder is being made.
  std::set<std::string> made_ ABSL_GUARDED_BY(mutex_);
  // What an earlier worker left on its way in or out. For Trim() alone, like sizes_.
  std::vector<std::string> left_over_;
  // Of folders that nothing has run in since they were measured.
  std::map<std::string, int64_t> sizes_;
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_CODE_JOB_CODE_H_
