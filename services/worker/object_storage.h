// The object store that takes the place of a file system that all nodes share (--storage-url), with all that it needs:
// connections, credentials, threads.
//
// Thread-safe.

#ifndef ADAPTDL_SERVICES_WORKER_OBJECT_STORAGE_H_
#define ADAPTDL_SERVICES_WORKER_OBJECT_STORAGE_H_

#include <map>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/aws/credentials.h"
#include "libs/base/clock.h"
#include "libs/http/http_client.h"
#include "libs/http/pauses.h"
#include "libs/objectstore/s3_store.h"
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
};

class ObjectStorage {
 public:
  // INVALID_ARGUMENT names the flag. `variables`: the environment, where credentials are looked for as Amazon's tools do. `clock`
  // outlives it.
  static absl::StatusOr<std::unique_ptr<ObjectStorage>> Create(
      const ObjectStorageOptions& options, const std::map<std::string, std::string>& variables,
      const Clock* clock);
  ~ObjectStorage();

  JobStore* jobs() { return &jobs_; }

  // Whether the bucket is there and lets us in.
  absl::Status Check();

  // Ends uploads that are on their way: whoever waits for them goes on.
  void Shutdown();

 private:
  ObjectStorage(const ObjectStorageOptions& options, objectstore::S3Options bucket, const std::string& prefix,
                const std::map<std::string, std::string>& variables, const Clock* clock);

  const std::string prefix_;
  const RealPauses pauses_;
  HttpClient http_{{}};
  const std::unique_ptr<aws::CredentialSource> credentials_;
  objectstore::S3Store store_;
  ThreadLanes lanes_;
  ObjectJobStore jobs_;
  // Lets the job store look after its work.
  std::jthread thread_;
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_OBJECT_STORAGE_H_
