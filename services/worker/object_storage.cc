#include "services/worker/object_storage.h"

#include <random>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/aws/credential_chain.h"
#include "libs/aws/endpoint.h"
#include "libs/objectstore/s3_url.h"
#include "services/worker/names.h"

namespace adaptdl::worker {
namespace {

// Uploads at a time, each of one job.
constexpr int kMaxUploads = 8;
constexpr absl::Duration kStepPeriod = absl::Milliseconds(500);

double RandomPart() {
  thread_local std::mt19937_64 random{std::random_device{}()};
  return std::uniform_real_distribution<double>(0, 1)(random);
}

std::string RegionOf(const ObjectStorageOptions& options,
                     const std::map<std::string, std::string>& variables) {
  if (!options.region.empty()) return options.region;
  for (const std::string name : {"AWS_REGION", "AWS_DEFAULT_REGION"}) {
    const auto variable = variables.find(name);
    if (variable != variables.end() && !variable->second.empty()) return variable->second;
  }
  // Others' servers have no regions, but want to be told one.
  return options.endpoint.empty() ? "" : "us-east-1";
}

}  // namespace

absl::StatusOr<std::unique_ptr<ObjectStorage>> ObjectStorage::Create(
    const ObjectStorageOptions& options, const std::map<std::string, std::string>& variables,
    const Clock* clock) {
  const absl::StatusOr<objectstore::S3Location> location =
      objectstore::ParseS3Url("--storage-url", options.url);
  if (!location.ok()) return location.status();
  absl::Status status = objectstore::CheckEndpoint("--storage-endpoint", options.endpoint);
  if (!status.ok()) return status;
  const std::string region = RegionOf(options, variables);
  if (status = aws::CheckRegion(region); !status.ok())
    return absl::InvalidArgumentError(absl::StrCat("--storage-region: ", status.message()));
  objectstore::S3Options bucket{.bucket = location->bucket, .region = region, .endpoint = options.endpoint};
  return std::unique_ptr<ObjectStorage>(
      new ObjectStorage(options, std::move(bucket), location->prefix, variables, clock));
}

ObjectStorage::ObjectStorage(const ObjectStorageOptions& options, objectstore::S3Options bucket,
                             const std::string& prefix, const std::map<std::string, std::string>& variables,
                             const Clock* clock)
    : prefix_(prefix),
      credentials_(aws::MakeCredentialChain({.environment = variables, .region = bucket.region}, &http_,
                                            clock, &pauses_)),
      store_(std::move(bucket), {&http_, credentials_.get(), clock, &pauses_, RandomPart}),
      lanes_(kMaxUploads),
      jobs_({.prefix = prefix,
             .checkpoint_folder = kCheckpointFolder,
             .share_folder = kShareFolder,
             .upload_timeout = options.upload_timeout},
            &store_, clock, &pauses_,
            [this](const std::string& lane, std::function<void()> work) {
              lanes_.Post(lane, std::move(work));
            }),
      thread_([this](const std::stop_token& stop) {
        while (pauses_.WaitFor(kStepPeriod, stop)) jobs_.Step();
      }) {}

ObjectStorage::~ObjectStorage() {
  Shutdown();
  thread_.request_stop();
  thread_.join();
  lanes_.Finish();
}

absl::Status ObjectStorage::Check() {
  // Of a folder that nobody has: it is the bucket that is asked for.
  return store_.List(prefix_.empty() ? ".adaptdl/" : absl::StrCat(prefix_, "/.adaptdl/"),
                     [](const objectstore::ObjectInfo&) { return absl::OkStatus(); }, {});
}

void ObjectStorage::Shutdown() { jobs_.Shutdown(); }

}  // namespace adaptdl::worker
