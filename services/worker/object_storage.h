// What this worker has of object stores: jobs' files, where no file system is shared by all nodes (--storage-url), and data sets;
// with all that they need: connections, credentials, threads.
//
// Thread-safe.

#ifndef ADAPTDL_SERVICES_WORKER_OBJECT_STORAGE_H_
#define ADAPTDL_SERVICES_WORKER_OBJECT_STORAGE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/aws/credentials.h"
#include "libs/base/clock.h"
#include "libs/base/mutex.h"
#include "libs/http/http_client.h"
#include "libs/http/pauses.h"
#include "libs/objectstore/s3_store.h"
#include "libs/objectstore/s3_url.h"
#include "services/worker/objects/data_cache.h"
#include "services/worker/objects/object_job_store.h"
#include "services/worker/work_lanes.h"

namespace adaptdl::worker {

struct ObjectStorageOptions {
  // "s3://BUCKET/PREFIX". Empty: there is none, all nodes share a folder.
  std::string url;
  // Instead of Amazon's own. Empty: Amazon's.
  std::string endpoint;
  // Empty: what the environment says (AWS_REGION, AWS_DEFAULT_REGION); with an endpoint, us-east-1.
  std::string region;
  // Most time between the end of a replica's process and the report of it.
  absl::Duration upload_timeout = absl::Minutes(2);
  // Folder for copies of data sets, absolute, and most bytes of all of them.
  std::string data_folder;
  int64_t data_cache_bytes = int64_t{100} << 30;
};

// Buckets by their names, as one user, at one endpoint. Thread-safe.
class Buckets {
 public:
  Buckets(std::string endpoint, std::string region, const std::map<std::string, std::string>& variables,
          const Clock* clock);

  // Lives as long as this does. INVALID_ARGUMENT: nothing says in which region.
  absl::StatusOr<objectstore::ObjectStore*> Open(const std::string& bucket);

 private:
  const std::string endpoint_;
  const std::string region_;
  const Clock* const clock_;
  const RealPauses pauses_;
  HttpClient http_{{}};
  const std::unique_ptr<aws::CredentialSource> credentials_;
  Mutex mutex_;
  std::map<std::string, std::unique_ptr<objectstore::S3Store>> open_ ABSL_GUARDED_BY(mutex_);
};

class ObjectStorage {
 public:
  // INVALID_ARGUMENT names the flag; NOT_FOUND, PERMISSION_DENIED: the bucket for jobs' files. One that does not answer now is said
  // in the log. `variables`: the environment, where credentials are looked for as Amazon's tools do. `clock`
  // outlives it.
  static absl::StatusOr<std::unique_ptr<ObjectStorage>> Create(
      const ObjectStorageOptions& options, const std::map<std::string, std::string>& variables,
      const Clock* clock);
  ~ObjectStorage();

  // Null: all nodes share a folder.
  JobStore* jobs() { return jobs_.get(); }
  DataCache* data() { return &data_; }

  // Ends what is on its way: whoever waits for it goes on.
  void Shutdown();

 private:
  ObjectStorage(const ObjectStorageOptions& options, const std::string& region,
                std::optional<objectstore::S3Location> location,
                const std::map<std::string, std::string>& variables, const Clock* clock);

  // Whether the bucket for jobs' files is there and lets us in.
  absl::Status Check();

  const std::optional<objectstore::S3Location> location_;
  const RealPauses pauses_;
  Buckets buckets_;
  ThreadLanes lanes_;
  DataCache data_;
  std::unique_ptr<ObjectJobStore> jobs_;
  // Lets the job store look after its work.
  std::jthread thread_;
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_OBJECT_STORAGE_H_
