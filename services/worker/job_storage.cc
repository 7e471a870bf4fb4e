#include "services/worker/job_storage.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/base/file.h"
#include "services/worker/names.h"
#include "services/worker/objects/job_store.h"
#include "services/worker/objects/local_files.h"

namespace adaptdl::worker {
namespace {

namespace fs = std::filesystem;

// Another node that removes the same folder takes entries away under our hands.
constexpr int kRemoveAttempts = 5;

constexpr char kPythonFolder[] = ".python";
constexpr char kProbe[] = "written to see whether the storage works\n";

std::string FolderNameOf(const v1::LaunchReplica& launch) {
  return JobFolderName(launch.namespace_(), launch.job(), launch.job_uid());
}

// Makes the folder unless it is there. Whoever made it, it is not one that a link leads to.
absl::Status MakeFolder(const std::string& path, mode_t mode) {
  // The second call leaves the umask aside.
  if (mkdir(path.c_str(), 0700) == 0 && chmod(path.c_str(), mode) == 0) return absl::OkStatus();
  const int error = errno;
  struct stat info = {};
  if (error == EEXIST && lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) return absl::OkStatus();
  return ErrnoStatus(error, absl::StrCat("make the folder ", path));
}

// Gives the folder to the account, with all that is in it: replicas of a worker that knew no accounts may
// have left files there. Those of a third account are left alone: a process of it could exchange files under
// our hands.
absl::Status GiveFolder(const std::string& path, const Account& account) {
  struct stat info = {};
  if (lstat(path.c_str(), &info) != 0) return ErrnoStatus(errno, absl::StrCat("look at ", path));
  if (info.st_uid == account.uid) return absl::OkStatus();
  if (info.st_uid != geteuid()) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " belongs to user ", info.st_uid, ", not to ", account.uid,
                     ", which the job is to run as: give --replica-user as it was before, or \"chown -R\" it "
                     "while the job rests"));
  }
  std::error_code error;
  for (fs::recursive_directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    if (lchown(entry->path().c_str(), account.uid, account.gid) != 0 && errno != ENOENT) {
      return ErrnoStatus(errno, absl::StrCat("give ", entry->path().string(), " to user ", account.uid));
    }
  }
  // The folder last: whoever is cut off before begins again.
  if (chmod(path.c_str(), 0700) != 0 || lchown(path.c_str(), account.uid, account.gid) != 0) {
    return ErrnoStatus(errno, absl::StrCat("give ", path, " to user ", account.uid));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<JobStorage> JobStorage::Create(const std::string& folder, const AccountOptions& options) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return ErrnoStatus(error.value(), absl::StrCat("make the storage folder ", folder));
  absl::StatusOr<ReplicaAccounts> accounts = ReplicaAccounts::Create(options, folder);
  if (!accounts.ok()) return accounts.status();
  return JobStorage(folder, *std::move(accounts));
}

std::string JobStorage::CheckpointPath(const v1::LaunchReplica& launch) const {
  return absl::StrCat(folder_, "/", FolderNameOf(launch), "/", kCheckpointFolder);
}

std::string JobStorage::SharePath(const v1::LaunchReplica& launch) const {
  return absl::StrCat(folder_, "/", FolderNameOf(launch), "/", kShareFolder);
}

absl::StatusOr<std::string> JobStorage::StartOf(const v1::LaunchReplica& launch) const {
  const std::string path = absl::StrCat(folder_, "/", FolderNameOf(launch), "/", kStartFolder);
  std::error_code ignored;
  if (!launch.has_start_from() || !fs::exists(path, ignored)) return std::string();
  const absl::StatusOr<std::vector<LocalFile>> own = ListFiles(CheckpointPath(launch));
  if (!own.ok()) return own.status();
  return own->empty() ? path : std::string();
}

absl::StatusOr<std::optional<Account>> JobStorage::Prepare(const v1::LaunchReplica& launch) const {
  const std::string job_folder = FolderNameOf(launch);
  // Open to be gone through, where the job's account is not the worker's.
  const mode_t outer = accounts_.own() ? 0700 : 0711;
  absl::Status status = MakeFolder(absl::StrCat(folder_, "/", launch.namespace_()), 0711);
  status.Update(MakeFolder(absl::StrCat(folder_, "/", job_folder), outer));
  if (!status.ok()) return status;
  absl::StatusOr<std::optional<Account>> account = accounts_.Find(job_folder);
  if (!account.ok()) return account.status();
  for (const std::string& path : {CheckpointPath(launch), SharePath(launch)}) {
    status.Update(MakeFolder(path, 0700));
    if (status.ok() && account->has_value()) status.Update(GiveFolder(path, **account));
  }
  if (!status.ok()) return status;
  return account;
}

absl::StatusOr<std::optional<gid_t>> JobStorage::NamespaceGroup(const std::string& job_namespace) const {
  if (!accounts_.per_job()) return std::optional<gid_t>();
  // Numbered like a job; no job has such a name.
  const std::string folder = absl::StrCat(job_namespace, "/", kPythonFolder);
  if (absl::Status status = MakeFolder(absl::StrCat(folder_, "/", folder), 0700); !status.ok()) return status;
  const absl::StatusOr<std::optional<Account>> account = accounts_.Find(folder);
  if (!account.ok()) return account.status();
  return std::optional<gid_t>((*account)->gid);
}

absl::Status JobStorage::Probe(const v1::ReplicaReport& replica) const {
  const std::string folder =
      absl::StrCat(folder_, "/", JobFolderName(replica.namespace_(), replica.job(), replica.job_uid()));
  const std::string path = absl::StrCat(folder, "/.probe-", replica.replica().replica_id());
  absl::Status status = WriteFileAtomically(path, kProbe, 0600);
  if (status.ok()) {
    const absl::StatusOr<std::string> read = ReadWholeFile(path);
    if (!read.ok()) {
      status = read.status();
    } else if (*read != kProbe) {
      status = absl::DataLossError(absl::StrCat(path, " holds something else than what was written to it"));
    }
  }
  unlink(path.c_str());
  std::error_code error;
  const fs::directory_iterator entries(absl::StrCat(folder, "/", kCheckpointFolder), error);
  if (error && status.ok()) {
    status = ErrnoStatus(error.value(), absl::StrCat("look into the checkpoints of ", folder));
  }
  // What is not there is not broken: a job that runs as the worker's own user can remove its folders.
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

absl::Status JobStorage::Remove(const v1::DeleteJobFiles& job) const {
  const std::string name = JobFolderName(job.namespace_(), job.job(), job.job_uid());
  const fs::path folder = fs::path(folder_) / name;
  const fs::path namespace_folder = folder.parent_path();
  std::error_code error;
  for (const fs::path& path : {namespace_folder, folder}) {
    if (fs::is_symlink(fs::symlink_status(path, error))) {
      return absl::FailedPreconditionError(
          absl::StrCat(path.string(), " is a symbolic link and is left alone: remove it by hand"));
    }
  }
  const std::optional<uid_t> user = accounts_.Known(name);
  for (int attempt = 0; attempt < kRemoveAttempts; ++attempt) {
    fs::remove_all(folder, error);
    if (!error) break;
  }
  if (error) return ErrnoStatus(error.value(), absl::StrCat("remove ", folder.string()));
  if (user.has_value()) accounts_.Release(name, *user);
  fs::remove(namespace_folder, error);  // fails, as it should, unless it is empty
  return absl::OkStatus();
}

}  // namespace adaptdl::worker
