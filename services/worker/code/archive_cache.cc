#include "services/worker/code/archive_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/archive/digest.h"
#include "libs/base/backoff.h"
#include "libs/base/file.h"
#include "libs/base/unique_fd.h"
#include "libs/service/log.h"

namespace adaptdl::worker {
namespace {

namespace fs = std::filesystem;

constexpr char kPart[] = ".part";
constexpr absl::Duration kFirstPause = absl::Milliseconds(200);
constexpr absl::Duration kLongestPause = absl::Seconds(5);
// How often those that wait for another's fetch look whether they are still wanted.
constexpr absl::Duration kLookPeriod = absl::Milliseconds(200);

// Whatever its code: only the source's codes say something of the job.
CodeFailure OfThisNode(const absl::Status& status) {
  return {absl::InternalError(absl::StrCat("keep the archive of the job's folder: ", status.message())),
          Cause::kNode};
}

CodeFailure CalledOffWhileFetched() {
  return {absl::CancelledError("the job's folder is not wanted any more"), Cause::kStorage};
}

// Whether another attempt may do better.
bool MayPass(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsAborted(status) ||
         absl::IsResourceExhausted(status);
}

CodeFailure OfTheSource(const ArchiveName& archive, const absl::Status& status) {
  // What no other node could do any better is the job's: it has to be submitted again.
  const bool gone = absl::IsNotFound(status) || absl::IsDataLoss(status) || absl::IsUnimplemented(status) ||
                    absl::IsInvalidArgument(status);
  return {absl::Status(status.code(), absl::StrCat("the folder that comes with the job (archive ",
                                                   archive.digest, ") can't be fetched: ", status.message())),
          gone ? Cause::kJob : Cause::kStorage};
}

absl::Status WriteAll(int file, absl::string_view data, int64_t* offset) {
  while (!data.empty()) {
    const ssize_t written = pwrite(file, data.data(), data.size(), *offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoStatus(errno, "write");
    *offset += written;
    data.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

}  // namespace

std::string ArchiveCache::PathOf(const ArchiveName& archive, bool part) const {
  return absl::StrCat(options_.folder, "/", archive.name_space, "/", archive.digest, part ? kPart : "");
}

CodeFailure ArchiveCache::Use(const ArchiveName& archive, const std::function<bool()>& wanted,
                              const std::function<CodeFailure(const std::string& path)>& use) {
  const absl::Time deadline = clock_->Steady() + options_.timeout;
  {
    MutexLock lock(&mutex_);
    ++used_[archive];
  }
  CodeFailure result{BeginFetch(archive, deadline, wanted), Cause::kStorage};
  if (result.ok()) {
    result = Fetch(archive, deadline, wanted);
    EndFetch(archive);
    if (result.ok()) result = use(PathOf(archive));
  }
  MutexLock lock(&mutex_);
  const auto used = used_.find(archive);
  if (--used->second == 0) used_.erase(used);
  return result;
}

absl::Status ArchiveCache::BeginFetch(const ArchiveName& archive, absl::Time deadline,
                                      const std::function<bool()>& wanted) {
  MutexLock lock(&mutex_);
  while (!fetched_.insert(archive).second) {
    changed_.WaitFor(&mutex_, kLookPeriod);
    if (!wanted()) return CalledOffWhileFetched().status;
    if (clock_->Steady() >= deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat("the folder that comes with the job could not be fetched within ",
                       absl::FormatDuration(options_.timeout)));
    }
  }
  return absl::OkStatus();
}

void ArchiveCache::EndFetch(const ArchiveName& archive) {
  MutexLock lock(&mutex_);
  fetched_.erase(archive);
  changed_.SignalAll();
}

CodeFailure ArchiveCache::Fetch(const ArchiveName& archive, absl::Time deadline,
                                const std::function<bool()>& wanted) {
  const std::string path = PathOf(archive);
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  // For the worker alone: namespaces must not see each other's.
  if (error || chmod(options_.folder.c_str(), 0700) != 0) {
    return OfThisNode(ErrnoStatus(error ? error.value() : errno, absl::StrCat("make ", options_.folder)));
  }
  // Looked at each time: whoever runs as the worker's user could have changed it.
  if (const auto digest = archive::DigestOfFile(path); digest.ok() && *digest == archive.digest) {
    utimensat(AT_FDCWD, path.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
    return {};
  }
  unlink(path.c_str());
  MakeRoom(archive.size);
  const std::string part = PathOf(archive, /*part=*/true);
  // What was read before this worker began may be anything: then all of it is read once more.
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (CodeFailure failure = Complete(archive, deadline, wanted); !failure.ok()) return failure;
    const absl::StatusOr<std::string> digest = archive::DigestOfFile(part);
    if (!digest.ok()) return OfThisNode(digest.status());
    if (*digest == archive.digest) {
      if (rename(part.c_str(), path.c_str()) == 0) return {};
      return OfThisNode(ErrnoStatus(errno, path));
    }
    log::Warning("the archive of a job's folder is not what it is said to be",
                 {{"wanted", archive.digest}, {"fetched", *digest}});
    unlink(part.c_str());
  }
  return OfTheSource(
      archive, absl::DataLossError("what the supervisor sends has another digest: submit the job again"));
}

CodeFailure ArchiveCache::Complete(const ArchiveName& archive, absl::Time deadline,
                                   const std::function<bool()>& wanted) {
  const std::string path = PathOf(archive, /*part=*/true);
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  struct stat info = {};
  if (!file.valid() || fstat(file.get(), &info) != 0) return OfThisNode(ErrnoStatus(errno, path));
  int64_t offset = info.st_size;
  if (offset > archive.size && ftruncate(file.get(), offset = 0) != 0)
    return OfThisNode(ErrnoStatus(errno, path));
  Backoff backoff(kFirstPause, kLongestPause);
  CodeFailure refused;
  const auto take = [&](absl::string_view data) {
    if (!wanted()) {
      refused = CalledOffWhileFetched();
    } else if (offset + static_cast<int64_t>(data.size()) > archive.size) {
      refused = OfTheSource(archive,
                            absl::DataLossError(absl::StrCat("it has more than ", archive.size, " bytes")));
    } else if (absl::Status status = WriteAll(file.get(), data, &offset); !status.ok()) {
      refused = OfThisNode(status);
    }
    return refused.status;
  };
  while (offset < archive.size) {
    const int64_t before = offset;
    const absl::Duration left = deadline - clock_->Steady();
    const absl::Status status =
        source_->Read(archive, offset, std::min(left, options_.attempt_timeout), take);
    if (!refused.ok()) return refused;
    if (offset == archive.size) break;
    if (status.ok())
      return OfTheSource(archive, absl::DataLossError(absl::StrCat("it has only ", offset, " bytes")));
    if (absl::IsDataLoss(status)) unlink(path.c_str());
    if (!MayPass(status)) return OfTheSource(archive, status);
    if (!wanted()) return CalledOffWhileFetched();
    if (offset > before) backoff.Reset();
    const absl::Duration pause = backoff.Next();
    if (clock_->Steady() + pause >= deadline) {
      return OfTheSource(
          archive, absl::DeadlineExceededError(
                       absl::StrCat("not within ", absl::FormatDuration(options_.timeout), "; ", offset,
                                    " of ", archive.size, " bytes have come; at last: ", status.message())));
    }
    log::Warning(
        "fetching a job's folder goes on",
        {{"digest", archive.digest}, {"received", absl::StrCat(offset)}, {"error", status.ToString()}});
    clock_->SleepFor(pause);
  }
  return {};
}

std::vector<ArchiveCache::Unused> ArchiveCache::ListUnused() {
  std::vector<Unused> unused;
  MutexLock lock(&mutex_);
  std::error_code error;
  for (fs::recursive_directory_iterator entry(options_.folder, error), end; !error && entry != end;
       entry.increment(error)) {
    struct stat info = {};
    if (entry.depth() != 1 || lstat(entry->path().c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    const std::string name = entry->path().filename().string();
    absl::string_view digest = name;
    const bool part = absl::ConsumeSuffix(&digest, kPart);
    const ArchiveName archive{entry->path().parent_path().filename().string(), std::string(digest),
                              info.st_size};
    if (used_.contains(archive)) continue;
    unused.push_back({archive, part, absl::TimeFromTimespec(info.st_mtim)});
  }
  std::sort(unused.begin(), unused.end(),
            [](const Unused& a, const Unused& b) { return a.needed < b.needed; });
  return unused;
}

bool ArchiveCache::Remove(const Unused& unused) {
  MutexLock lock(&mutex_);
  if (used_.contains(unused.archive)) return false;
  unlink(PathOf(unused.archive, unused.part).c_str());
  return true;
}

void ArchiveCache::MakeRoom(int64_t bytes) {
  const std::vector<Unused> unused = ListUnused();
  for (const Unused& one : unused) bytes += one.archive.size;
  for (const Unused& one : unused) {
    if (bytes <= options_.max_unused_bytes) return;
    if (Remove(one)) bytes -= one.archive.size;
  }
}

}  // namespace adaptdl::worker
