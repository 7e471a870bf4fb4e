// Data sets that jobs ask for, as a copy on this node: fetched once, for all jobs of a namespace, before a replica starts.
//
//   <folder>/<namespace>/<digest>/...              a data set: one state of a URL (its objects, sizes and ETags)
//   <folder>/<namespace>/<digest>.json             it is whole: its URL, bytes, and when it was asked for last
//   <folder>/<namespace>/<digest>.part-<boot>/...  on its way; gone on with after a failure, as long as the machine has not restarted
//   <folder>/.views/<replica>/<name>               symbolic links: what the replica is given
//
// A data set that has changed is another one; the old one stays as long as somebody uses it. All together have at most `max_bytes`:
// those that were asked for longest ago go first, and none that a replica uses. What they are of nobody may write but the worker.
//
// Errors: INVALID_ARGUMENT, NOT_FOUND and PERMISSION_DENIED are the job's mistake; RESOURCE_EXHAUSTED: there is no room; others
// are the store's.
//
// Thread-safe.

#ifndef ADAPTDL_SERVICES_WORKER_OBJECTS_DATA_CACHE_H_
#define ADAPTDL_SERVICES_WORKER_OBJECTS_DATA_CACHE_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/base/clock.h"
#include "libs/base/mutex.h"
#include "libs/objectstore/object_store.h"
#include "libs/objectstore/s3_url.h"

namespace adaptdl::worker {

struct DataSetSource {
  // Of the folder that the replica finds it in: a DNS label.
  std::string name;
  // "s3://BUCKET/PREFIX", or "file:///PATH" of a folder, which is not copied.
  std::string url;
};

struct DataCacheOptions {
  // Absolute. Made when it is needed.
  std::string folder;
  int64_t max_bytes = int64_t{100} << 30;
  // Told of each machine's start by another text.
  std::string boot_id;
  // Where jobs' own files are, which are no data sets. None: not in an object store.
  std::optional<objectstore::S3Location> jobs;
};

// The folder of links of a replica, for a cache in `folder`.
std::string DataViewOf(const std::string& folder, const std::string& replica_id);

class DataCache {
 public:
  // The store of a bucket, which outlives the cache.
  using Open = std::function<absl::StatusOr<objectstore::ObjectStore*>(const std::string& bucket)>;

  struct Request {
    // Checked, as the next.
    std::string job_namespace;
    std::string replica_id;
    std::vector<DataSetSource> sets;
    // Group that may read. None: the worker's own user is the job's.
    std::optional<gid_t> group = std::nullopt;
  };

  // `clock` outlives it.
  DataCache(DataCacheOptions options, Open open, const Clock* clock)
      : options_(std::move(options)), open_(std::move(open)), clock_(*clock) {}

  // The replica's folder of links, whose targets are whole and stay until Release(). `progress` is called while that makes some.
  absl::StatusOr<std::string> Acquire(const Request& request, const std::function<void()>& progress);

  // Of a replica that an earlier worker has started: what its links lead to is in use.
  void Adopt(const std::string& replica_id);

  void Release(const std::string& replica_id);

  // Ends fetches that are on their way.
  void Shutdown() { stop_.request_stop(); }

 private:
  struct Listing {
    // By path within the data set.
    std::map<std::string, objectstore::ObjectInfo> objects;
    int64_t bytes = 0;
  };
  // A data set that is whole.
  struct Kept {
    // Without ".json".
    std::string path;
    int64_t bytes = 0;
    absl::Time asked;
  };

  absl::StatusOr<std::string> Provide(const Request& request, const DataSetSource& set,
                                      const std::function<void()>& progress);
  absl::StatusOr<Listing> List(objectstore::ObjectStore& store,
                               const objectstore::S3Location& location) const;
  absl::Status Fetch(const Request& request, const std::string& url, const std::string& path,
                     const Listing& listing, objectstore::ObjectStore& store,
                     const std::function<void()>& progress);
  absl::Status FetchObject(const std::string& path, const objectstore::ObjectInfo& object,
                           objectstore::ObjectStore& store, const std::function<void()>& progress) const;
  std::vector<Kept> ListKept() const;
  // Removes what was left half-way, but for `path`, which is gone on with.
  void RemoveParts(const std::string& path) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status MakeRoom(int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status WriteRecord(const std::string& path, const std::string& url, int64_t bytes) const;

  const DataCacheOptions options_;
  const Open open_;
  const Clock& clock_;
  std::stop_source stop_;

  Mutex mutex_;
  CondVar changed_;
  // Paths of data sets that somebody is fetching, with the bytes that they will have.
  std::map<std::string, int64_t> busy_ ABSL_GUARDED_BY(mutex_);
  // By path: the replicas that use it.
  std::map<std::string, std::set<std::string>> uses_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_OBJECTS_DATA_CACHE_H_
