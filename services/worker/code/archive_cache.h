// The archives of jobs' folders on this node, each of which is fetched once for all that need it:
//
//   <folder>/<namespace>/<digest>        whole, as far as is known: who gets it has had its digest checked
//   <folder>/<namespace>/<digest>.part   as far as it was read; the next fetch goes on from there
//
// The time of a file's last change is when it was needed last. Nobody but the worker may look into the folder.
//
// Thread-safe. Waits for the network and for disks.

#ifndef ADAPTDL_SERVICES_WORKER_CODE_ARCHIVE_CACHE_H_
#define ADAPTDL_SERVICES_WORKER_CODE_ARCHIVE_CACHE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/base/clock.h"
#include "libs/base/mutex.h"
#include "services/worker/code/code_source.h"
#include "services/worker/shim/records.h"

namespace adaptdl::worker {

// Why a job's folder is not there, and whose fault that is.
struct CodeFailure {
  absl::Status status;
  Cause cause = Cause::kUnknown;

  bool ok() const { return status.ok(); }
};

class ArchiveCache {
 public:
  struct Options {
    // Absolute. Made when it is needed.
    std::string folder;
    // Of the archives that nobody uses, in bytes, after one was fetched.
    int64_t max_unused_bytes = int64_t{10} << 30;
    // How long a fetch may take, however often it breaks off, and one attempt of it.
    absl::Duration timeout = absl::Minutes(8);
    absl::Duration attempt_timeout = absl::Minutes(1);
  };

  // Both outlive it.
  ArchiveCache(Options options, CodeSource* source, const Clock* clock)
      : options_(std::move(options)), source_(source), clock_(clock) {}

  // Calls `use` with the path of the archive, which stays until that returns, and returns what it does; or says why there
  // is none. `wanted` is asked now and then whether it is to go on.
  CodeFailure Use(const ArchiveName& archive, const std::function<bool()>& wanted,
                  const std::function<CodeFailure(const std::string& path)>& use);

  // A file that nobody uses.
  struct Unused {
    ArchiveName archive;
    bool part = false;
    absl::Time needed;  // last
  };
  std::vector<Unused> ListUnused();
  // False: it is in use by now.
  bool Remove(const Unused& unused);

 private:
  std::string PathOf(const ArchiveName& archive, bool part = false) const;
  // Waits until nobody else fetches the archive, and from then on this caller does, until EndFetch().
  absl::Status BeginFetch(const ArchiveName& archive, absl::Time deadline,
                          const std::function<bool()>& wanted);
  void EndFetch(const ArchiveName& archive);
  // Makes the archive whole and right, if it is not.
  CodeFailure Fetch(const ArchiveName& archive, absl::Time deadline, const std::function<bool()>& wanted);
  // Reads on until the part has all bytes.
  CodeFailure Complete(const ArchiveName& archive, absl::Time deadline, const std::function<bool()>& wanted);
  void MakeRoom(int64_t bytes);

  const Options options_;
  CodeSource* const source_;
  const Clock* const clock_;

  Mutex mutex_;
  CondVar changed_;
  // By how many callers each is used or waited for.
  std::map<ArchiveName, int> used_ ABSL_GUARDED_BY(mutex_);
  std::set<ArchiveName> fetched_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_CODE_ARCHIVE_CACHE_H_
