#include "services/worker/job_storage.h"

#include <filesystem>
#include <string>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/base/file.h"
#include "services/worker/names.h"

namespace adaptdl::worker {
namespace {

namespace fs = std::filesystem;

// Another node that removes the same folder takes entries away under our hands.
constexpr int kRemoveAttempts = 5;

std::string JobFolder(const std::string& storage, const v1::LaunchReplica& launch) {
  return absl::StrCat(storage, "/", JobFolderName(launch.namespace_(), launch.job(), launch.job_uid()));
}

}  // namespace

absl::StatusOr<JobStorage> JobStorage::Create(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return ErrnoStatus(error.value(), absl::StrCat("make the storage folder ", folder));
  return JobStorage(folder);
}

std::string JobStorage::CheckpointPath(const v1::LaunchReplica& launch) const {
  return absl::StrCat(JobFolder(folder_, launch), "/", kCheckpointFolder);
}

std::string JobStorage::SharePath(const v1::LaunchReplica& launch) const {
  return absl::StrCat(JobFolder(folder_, launch), "/", kShareFolder);
}

absl::Status JobStorage::Prepare(const v1::LaunchReplica& launch) const {
  for (const std::string& path : {CheckpointPath(launch), SharePath(launch)}) {
    std::error_code error;
    fs::create_directories(path, error);
    if (error) return ErrnoStatus(error.value(), absl::StrCat("make the job's folder ", path));
  }
  return absl::OkStatus();
}

absl::Status JobStorage::Remove(const v1::DeleteJobFiles& job) const {
  const fs::path folder = fs::path(folder_) / JobFolderName(job.namespace_(), job.job(), job.job_uid());
  const fs::path namespace_folder = folder.parent_path();
  std::error_code error;
  for (const fs::path& path : {namespace_folder, folder}) {
    if (fs::is_symlink(fs::symlink_status(path, error))) {
      return absl::FailedPreconditionError(
          absl::StrCat(path.string(), " is a symbolic link and is left alone: remove it by hand"));
    }
  }
  for (int attempt = 0; attempt < kRemoveAttempts; ++attempt) {
    fs::remove_all(folder, error);
    if (!error) break;
  }
  if (error) return ErrnoStatus(error.value(), absl::StrCat("remove ", folder.string()));
  fs::remove(namespace_folder, error);  // fails, as it should, unless it is empty
  return absl::OkStatus();
}

}  // namespace adaptdl::worker
