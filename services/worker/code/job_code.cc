#include "services/worker/code/job_code.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/base/file.h"
#include "libs/base/random_id.h"
#include "libs/service/log.h"

namespace adaptdl::worker {
namespace {

namespace fs = std::filesystem;

// What is on its way in or out lies beside the rest, under these names; no namespace begins like that.
constexpr char kComingFolder[] = ".new-";
constexpr char kGoneFolder[] = ".gone-";
constexpr absl::Duration kLookAgain = absl::Milliseconds(200);

using Owner = archive::UnpackOptions::Owner;

// A folder of ours, open to be gone through by users of jobs where there are such.
absl::Status MakePassage(const std::string& path, bool others) {
  struct stat info = {};
  if (mkdir(path.c_str(), 0700) != 0 &&
      (errno != EEXIST || lstat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode))) {
    return ErrnoStatus(errno, absl::StrCat("make the folder ", path));
  }
  if (chmod(path.c_str(), others ? 0711 : 0700) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, path);
}

bool BelongsTo(const std::string& path, const std::optional<Owner>& owner) {
  struct stat info = {};
  return lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) &&
         info.st_uid == (owner.has_value() ? owner->uid : geteuid());
}

void NoteUse(const std::string& path) {
  if (utimensat(AT_FDCWD, path.c_str(), nullptr, AT_SYMLINK_NOFOLLOW) != 0) {
    log::Warning("the time of use of a job's folder can't be noted", {{"folder", path}});
  }
}

// Links are not followed.
int64_t SizeBeneath(const std::string& folder) {
  int64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    struct stat info = {};
    if (lstat(entry->path().c_str(), &info) == 0) bytes += int64_t{512} * info.st_blocks;
  }
  return bytes;
}

// What came of unpacking: what the archive holds is the job's, what the disk does this node's.
CodeFailure OfUnpacking(const absl::Status& status) {
  const bool of_the_job = absl::IsInvalidArgument(status) || absl::IsOutOfRange(status);
  return {absl::Status(status.code(),
                       absl::StrCat("unpack the folder that comes with the job: ", status.message())),
          of_the_job ? Cause::kJob : Cause::kNode};
}

}  // namespace

struct JobCode::Unused {
  absl::Time needed;  // last
  int64_t bytes = 0;
  // "<namespace>/<job>-<uid>". Empty: it is an archive.
  std::string job;
  ArchiveCache::Unused archive;
};

JobCode::JobCode(const CodeOptions& options, CodeSource* source, const Clock* clock)
    : options_(options),
      archives_({.folder = options.archives,
                 .max_unused_bytes = options.max_unused_bytes,
                 .timeout = options.timeout},
                source, clock) {
  std::error_code error;
  for (fs::directory_iterator entry(options_.folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (absl::StartsWith(name, kComingFolder) || absl::StartsWith(name, kGoneFolder)) {
      left_over_.push_back(entry->path().string());
    }
  }
}

std::string JobCode::FolderOf(const std::string& job) const {
  return absl::StrCat(options_.folder, "/", job);
}

CodeFailure JobCode::Prepare(const Order& order, const std::optional<Owner>& owner,
                             const std::function<bool()>& wanted) {
  const std::string path = FolderOf(order.job);
  {
    MutexLock lock(&mutex_);
    // The others of the job wait for the first one.
    while (made_.contains(order.job)) {
      changed_.WaitFor(&mutex_, kLookAgain);
      if (!wanted())
        return {absl::CancelledError("the job's folder is not wanted any more"), Cause::kStorage};
    }
    if (BelongsTo(path, owner)) {
      NoteUse(path);
      return {};
    }
    made_.insert(order.job);
  }
  CodeFailure result = archives_.Use(order.archive, wanted,
                                     [&](const std::string& archive) { return Make(order, owner, archive); });
  MutexLock lock(&mutex_);
  made_.erase(order.job);
  changed_.SignalAll();
  return result;
}

CodeFailure JobCode::Make(const Order& order, const std::optional<Owner>& owner, const std::string& archive) {
  const std::string path = FolderOf(order.job);
  std::error_code error;
  fs::create_directories(fs::path(options_.folder).parent_path(), error);
  absl::Status status = MakePassage(options_.folder, owner.has_value());
  if (status.ok()) status = MakePassage(fs::path(path).parent_path().string(), owner.has_value());
  if (!status.ok()) return {status, Cause::kNode};
  // Nobody but us can reach it until it is complete.
  const std::string coming = absl::StrCat(options_.folder, "/", kComingFolder, RandomHex(8));
  if (mkdir(coming.c_str(), 0700) != 0) return {ErrnoStatus(errno, coming), Cause::kNode};
  absl::Cleanup remove = [&] { fs::remove_all(coming, error); };
  if (status = archive::UnpackArchive(archive, coming, {.owner = owner}); !status.ok())
    return OfUnpacking(status);
  if (owner.has_value() && lchown(coming.c_str(), owner->uid, owner->gid) != 0) {
    return {ErrnoStatus(errno, absl::StrCat("give ", coming, " to user ", owner->uid)), Cause::kNode};
  }
  std::string old;
  {
    MutexLock lock(&mutex_);
    // Of a worker that gave jobs other users.
    const absl::StatusOr<std::string> moved = MoveAway(order.job);
    if (!moved.ok()) return {moved.status(), Cause::kNode};
    old = *moved;
    if (rename(coming.c_str(), path.c_str()) != 0) return {ErrnoStatus(errno, path), Cause::kNode};
  }
  std::move(remove).Cancel();
  NoteUse(path);
  if (!old.empty()) fs::remove_all(old, error);
  return {};
}

absl::StatusOr<std::string> JobCode::MoveAway(const std::string& job) {
  std::string gone = absl::StrCat(options_.folder, "/", kGoneFolder, RandomHex(8));
  if (rename(FolderOf(job).c_str(), gone.c_str()) == 0) return gone;
  if (errno == ENOENT) return std::string();
  return ErrnoStatus(errno, absl::StrCat("move ", FolderOf(job), " away"));
}

absl::Status JobCode::Remove(const std::string& job) {
  absl::StatusOr<std::string> gone;
  {
    MutexLock lock(&mutex_);
    gone = MoveAway(job);
  }
  if (!gone.ok() || gone->empty()) return gone.status();
  std::error_code error;
  fs::remove_all(*gone, error);
  return error ? ErrnoStatus(error.value(), absl::StrCat("remove ", *gone)) : absl::OkStatus();
}

std::vector<JobCode::Unused> JobCode::ListUnused(const std::set<std::string>& used) {
  std::vector<Unused> unused;
  for (const ArchiveCache::Unused& one : archives_.ListUnused()) {
    unused.push_back({.needed = one.needed, .bytes = one.archive.size, .job = "", .archive = one});
  }
  std::map<std::string, int64_t> sizes;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(options_.folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string parent = entry->path().parent_path().filename().string();
    // Only the namespaces are gone into.
    if (entry.depth() == 1 || absl::StartsWith(entry->path().filename().string(), ".")) {
      entry.disable_recursion_pending();
    }
    struct stat info = {};
    if (entry.depth() != 1 || lstat(entry->path().c_str(), &info) != 0) continue;
    const std::string job = absl::StrCat(parent, "/", entry->path().filename().string());
    if (used.contains(job)) continue;
    const auto known = sizes_.find(job);
    const int64_t bytes = known != sizes_.end() ? known->second : SizeBeneath(entry->path().string());
    sizes[job] = bytes;
    unused.push_back(
        {.needed = absl::TimeFromTimespec(info.st_mtim), .bytes = bytes, .job = job, .archive = {}});
  }
  sizes_ = std::move(sizes);
  std::sort(unused.begin(), unused.end(),
            [](const Unused& a, const Unused& b) { return a.needed < b.needed; });
  return unused;
}

bool JobCode::Drop(const Unused& unused, const std::function<std::set<std::string>()>& in_use) {
  if (unused.job.empty()) return archives_.Remove(unused.archive);
  absl::StatusOr<std::string> gone;
  {
    MutexLock lock(&mutex_);
    if (in_use().contains(unused.job)) return false;
    gone = MoveAway(unused.job);
  }
  if (!gone.ok()) return false;
  log::Info("a job's folder goes, which nothing runs in", {{"job", unused.job}});
  std::error_code error;
  if (!gone->empty()) fs::remove_all(*gone, error);
  return true;
}

int64_t JobCode::Trim(const std::function<std::set<std::string>()>& in_use) {
  std::error_code error;
  for (const std::string& path : std::exchange(left_over_, {})) fs::remove_all(path, error);
  const std::vector<Unused> unused = ListUnused(in_use());
  int64_t total = 0;
  for (const Unused& one : unused) total += one.bytes;
  for (const Unused& one : unused) {
    if (total <= options_.max_unused_bytes) break;
    if (Drop(one, in_use)) total -= one.bytes;
  }
  return total;
}

}  // namespace adaptdl::worker
