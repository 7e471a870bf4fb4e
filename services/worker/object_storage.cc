#include "services/worker/object_storage.h"

#include <random>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/aws/credential_chain.h"
#include "libs/aws/endpoint.h"
#include "libs/base/file.h"
#include "libs/service/log.h"
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

// Names the machine's last start.
std::string BootId() {
  const absl::StatusOr<std::string> id = ReadWholeFile("/proc/sys/kernel/random/boot_id", 100);
  return id.ok() ? id->substr(0, 8) : "unknown";
}

}  // namespace

Buckets::Buckets(std::string endpoint, std::string region,
                 const std::map<std::string, std::string>& variables, const Clock* clock)
    : endpoint_(std::move(endpoint)),
      region_(std::move(region)),
      clock_(clock),
      credentials_(
          aws::MakeCredentialChain({.environment = variables, .region = region_}, &http_, clock, &pauses_)) {}

absl::StatusOr<objectstore::ObjectStore*> Buckets::Open(const std::string& bucket) {
  if (const absl::Status status = aws::CheckRegion(region_); !status.ok())
    return absl::FailedPreconditionError(absl::StrCat("--storage-region of the worker: ", status.message()));
  MutexLock lock(&mutex_);
  std::unique_ptr<objectstore::S3Store>& store = open_[bucket];
  if (store == nullptr) {
    store = std::make_unique<objectstore::S3Store>(
        objectstore::S3Options{.bucket = bucket, .region = region_, .endpoint = endpoint_},
        aws::World{&http_, credentials_.get(), clock_, &pauses_, RandomPart});
  }
  return store.get();
}

absl::StatusOr<std::unique_ptr<ObjectStorage>> ObjectStorage::Create(
    const ObjectStorageOptions& options, const std::map<std::string, std::string>& variables,
    const Clock* clock) {
  absl::Status status = objectstore::CheckEndpoint("--storage-endpoint", options.endpoint);
  if (!status.ok()) return status;
  const std::string region = RegionOf(options, variables);
  if (!region.empty()) status = aws::CheckRegion(region);
  std::optional<objectstore::S3Location> location;
  if (!options.url.empty()) {
    absl::StatusOr<objectstore::S3Location> parsed = objectstore::ParseS3Url("--storage-url", options.url);
    if (!parsed.ok()) return parsed.status();
    location = *std::move(parsed);
    status = aws::CheckRegion(region);
  }
  if (!status.ok()) return absl::InvalidArgumentError(absl::StrCat("--storage-region: ", status.message()));
  std::unique_ptr<ObjectStorage> storage(
      new ObjectStorage(options, region, std::move(location), variables, clock));
  status = storage->Check();
  // It may be back before anybody needs it.
  if (!status.ok() && !absl::IsUnavailable(status) && !absl::IsDeadlineExceeded(status)) return status;
  if (!status.ok()) log::Warning("the object store does not answer", {{"error", status.ToString()}});
  return storage;
}

ObjectStorage::ObjectStorage(const ObjectStorageOptions& options, const std::string& region,
                             std::optional<objectstore::S3Location> location,
                             const std::map<std::string, std::string>& variables, const Clock* clock)
    : location_(std::move(location)),
      buckets_(options.endpoint, region, variables, clock),
      lanes_(kMaxUploads),
      data_(
          {.folder = options.data_folder,
           .max_bytes = options.data_cache_bytes,
           .boot_id = BootId(),
           .jobs = location_},
          [this](const std::string& bucket) { return buckets_.Open(bucket); }, clock) {
  if (!location_.has_value()) return;
  const absl::StatusOr<objectstore::ObjectStore*> store = buckets_.Open(location_->bucket);
  if (!store.ok()) return;  // not with a region that has been checked
  jobs_ = std::make_unique<ObjectJobStore>(
      ObjectJobStoreOptions{.prefix = location_->prefix,
                            .checkpoint_folder = kCheckpointFolder,
                            .share_folder = kShareFolder,
                            .upload_timeout = options.upload_timeout},
      *store, clock, &pauses_,
      [this](const std::string& lane, std::function<void()> work) { lanes_.Post(lane, std::move(work)); });
  thread_ = std::jthread([this](const std::stop_token& stop) {
    while (pauses_.WaitFor(kStepPeriod, stop)) jobs_->Step();
  });
}

ObjectStorage::~ObjectStorage() {
  Shutdown();
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
  lanes_.Finish();
}

absl::Status ObjectStorage::Check() {
  if (!location_.has_value()) return absl::OkStatus();
  const absl::StatusOr<objectstore::ObjectStore*> store = buckets_.Open(location_->bucket);
  if (!store.ok()) return store.status();
  // Of a folder that nobody has: it is the bucket that is asked for.
  return (*store)->List(location_->Key(".adaptdl/"),
                        [](const objectstore::ObjectInfo&) { return absl::OkStatus(); }, {});
}

void ObjectStorage::Shutdown() {
  data_.Shutdown();
  if (jobs_ != nullptr) jobs_->Shutdown();
}

}  // namespace adaptdl::worker
