#include "services/worker/objects/shared_folder_store.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <system_error>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "libs/base/file.h"
#include "libs/base/random_id.h"
#include "services/worker/objects/checkpoint_folder.h"
#include "services/worker/objects/local_files.h"

namespace adaptdl::worker {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kPartBytes = int64_t{4} << 20;
// A checkpoint may be removed while it is copied, as there are newer ones.
constexpr int kRounds = 3;

// FAILED_PRECONDITION: it is not what it was when it was listed.
absl::Status CopyFile(const std::string& from, const std::string& to, const LocalFile& file,
                      const std::optional<FileOwner>& owner, const std::function<void()>& progress) {
  const absl::StatusOr<UniqueFd> source = OpenFile(from, file.path);
  if (!source.ok()) return source.status();
  struct stat folder = {};
  struct stat info = {};
  // A hard link in a job's folder does not make a file the job's.
  if (stat(from.c_str(), &folder) != 0 || fstat(source->get(), &info) != 0 || info.st_uid != folder.st_uid)
    return absl::PermissionDeniedError(absl::StrCat("\"", file.path, "\" does not belong to the job's user"));
  absl::StatusOr<FileWriter> writer = FileWriter::Create(absl::StrCat(to, "/", file.path));
  if (!writer.ok()) return writer.status();
  while (writer->size() < file.size) {
    const int64_t length = std::min(kPartBytes, file.size - writer->size());
    const absl::StatusOr<std::string> part = SourceOf(*source)(writer->size(), length);
    if (!part.ok()) return part.status();
    if (part->empty()) return absl::FailedPreconditionError(absl::StrCat("\"", file.path, "\" was cut"));
    if (const absl::Status status = writer->Append(*part); !status.ok()) return status;
    progress();
  }
  return writer->Finish(owner);
}

absl::Status CopyNewest(const std::string& from, const std::string& to, const std::optional<FileOwner>& owner,
                        const std::function<void()>& progress) {
  const absl::StatusOr<std::optional<LocalCheckpoint>> newest = FindCheckpoint(from, /*at_rest=*/true);
  if (!newest.ok()) return newest.status();
  if (!newest->has_value()) return absl::NotFoundError(absl::StrCat("there is no checkpoint in ", from));
  for (const LocalFile& file : (*newest)->files) {
    if (const absl::Status status = CopyFile(from, to, file, owner, progress); !status.ok()) return status;
  }
  return GiveFolders(to, owner);
}

}  // namespace

absl::Status SharedFolderStore::FetchStart(const Job& job, const Job& source,
                                           const std::function<void()>& progress) {
  const std::string from = absl::StrCat(source.folder, "/", checkpoint_folder_);
  const std::string copy = absl::StrCat(job.folder, "/.", kStartFolder, "-", RandomHex(8));
  std::error_code ignored;
  absl::Status status;
  for (int round = 0; round < kRounds; ++round) {
    status = CopyNewest(from, copy, job.owner, progress);
    if (!absl::IsFailedPrecondition(status)) break;
    fs::remove_all(copy, ignored);
  }
  if (status.ok()) {
    std::error_code error;
    fs::rename(copy, absl::StrCat(job.folder, "/", kStartFolder), error);
    // Another node may have been first: then all begin with what that one has found.
    const bool is_there = error == std::errc::directory_not_empty || error == std::errc::file_exists;
    if (error && !is_there) status = ErrnoStatus(error.value(), absl::StrCat("name ", copy));
  }
  fs::remove_all(copy, ignored);
  return status;
}

}  // namespace adaptdl::worker
