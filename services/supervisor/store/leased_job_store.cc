#include "services/supervisor/store/leased_job_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "libs/base/clock.h"
#include "libs/base/file.h"
#include "services/supervisor/store/sqlite.h"

namespace adaptdl::supervisor {
namespace {

namespace fs = std::filesystem;

// How long to wait for a former leader that is about to end, and between two attempts to copy what it writes.
constexpr absl::Duration kLockWait = absl::Milliseconds(100);
constexpr absl::Duration kPatience = absl::Seconds(20);
// Files of a database beside it: the log, and the journal of a change of its mode.
constexpr const char* kCompanions[] = {"-wal", "-journal"};
constexpr const char* kAllFiles[] = {"", "-wal", "-journal", "-shm"};

// What changes when a file of the database is written to. The beginning of a log names its present round:
// before frames that are in the database are overwritten, that changes.
std::string Fingerprint(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return "";
  constexpr size_t kHeader = 32;
  char header[kHeader] = {};
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const ssize_t count = file < 0 ? 0 : pread(file, header, sizeof(header), 0);
  if (file >= 0) close(file);
  return absl::StrCat(info.st_ino, " ", info.st_size, " ",
                      absl::ToUnixNanos(absl::TimeFromTimespec(info.st_mtim)), " ",
                      absl::string_view(header, count > 0 ? count : 0));
}

std::string FingerprintOfAll(const std::string& path) {
  return absl::StrCat(Fingerprint(path), "|", Fingerprint(path + "-wal"), "|",
                      Fingerprint(path + "-journal"));
}

absl::Status CopyFile(const std::string& from, const std::string& to) {
  const int source = open(from.c_str(), O_RDONLY | O_CLOEXEC);
  if (source < 0) return ErrnoStatus(errno, from);
  const auto close_source = absl::MakeCleanup([source] { close(source); });
  const int target = open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (target < 0) return ErrnoStatus(errno, to);
  const auto close_target = absl::MakeCleanup([target] { close(target); });
  std::string buffer(1 << 20, '\0');
  while (true) {
    const ssize_t count = read(source, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoStatus(errno, from);
    if (count == 0) break;
    for (ssize_t done = 0; done < count;) {
      const ssize_t written = write(target, buffer.data() + done, count - done);
      if (written < 0 && errno != EINTR) return ErrnoStatus(errno, to);
      done += std::max<ssize_t>(written, 0);
    }
  }
  return fsync(target) == 0 ? absl::OkStatus() : ErrnoStatus(errno, to);
}

absl::Status SyncFolderOf(const std::string& path) {
  const std::string folder = fs::path(path).parent_path().string();
  const int file = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool done = file >= 0 && fsync(file) == 0;
  const int error = errno;
  if (file >= 0) close(file);
  return done ? absl::OkStatus() : ErrnoStatus(error, folder);
}

// Number of the leadership that made this file. 0: it is no file of a copy.
int64_t MakerOf(absl::string_view name) {
  int64_t sequence = 0;
  for (const char* suffix : kAllFiles) {
    absl::string_view number = name;
    const bool copy = absl::ConsumePrefix(&number, "supervisor-") &&
                      absl::ConsumeSuffix(&number, absl::StrCat(".db", suffix)) &&
                      absl::SimpleAtoi(number, &sequence);
    if (copy) return sequence;
  }
  return 0;
}

// Copies of leaders before number `sequence` that ended before they had named theirs. Not later ones: this
// one may be the stopped leader itself, which goes on here.
void RemoveOlderCopies(const std::string& folder, const std::string& current, int64_t sequence) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const int64_t maker = MakerOf(name);
    std::error_code ignored;
    if (maker > 0 && maker < sequence && !absl::StartsWith(name, current)) fs::remove(entry->path(), ignored);
  }
}

}  // namespace

absl::Status CopyOpenDatabase(const std::string& from, const std::string& to) {
  const std::string before = FingerprintOfAll(from);
  auto remove = absl::MakeCleanup([&to] { RemoveDatabase(to); });
  // The log last: it holds all pages that may have been moved to the database while that was copied.
  if (absl::Status status = CopyFile(from, to); !status.ok()) return status;
  for (const char* suffix : kCompanions) {
    const absl::Status status = CopyFile(from + suffix, to + suffix);
    if (!status.ok() && !absl::IsNotFound(status)) return status;
  }
  if (absl::Status status = SyncFolderOf(to); !status.ok()) return status;
  if (FingerprintOfAll(from) != before) {
    return absl::AbortedError(absl::StrCat(from, ": was written to while it was copied"));
  }
  std::move(remove).Cancel();
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<SqliteJobStore>> OpenLeasedStore(const SqliteJobStoreOptions& options,
                                                                FileLease* lease) {
  SqliteJobStoreOptions own = options;
  own.file = lease->database();
  if (lease->predecessor_may_live()) own.busy_timeout = kLockWait;
  const std::string former = own.file;
  const std::string path = absl::StrCat(options.folder, "/", former);
  const int64_t sequence = lease->sequence();
  const absl::Time deadline = SteadyNow() + kPatience;
  absl::StatusOr<std::unique_ptr<SqliteJobStore>> store = SqliteJobStore::Open(own);
  while (IsLocked(store.status()) && own.file == former && lease->predecessor_may_live()) {
    const std::string copy = absl::StrCat("supervisor-", sequence, ".db");
    const absl::Status copied = CopyOpenDatabase(path, absl::StrCat(options.folder, "/", copy));
    if (!copied.ok() && (!absl::IsAborted(copied) || SteadyNow() > deadline)) return copied;
    if (copied.ok()) own.file = copy;
    store = SqliteJobStore::Open(own);
  }
  if (!store.ok()) return store.status();
  if (const absl::Status status = lease->SetDatabase(own.file); !status.ok()) return status;
  // No leader looks for it any more.
  if (own.file != former) RemoveDatabase(path);
  RemoveOlderCopies(options.folder, own.file, sequence);
  return store;
}

}  // namespace adaptdl::supervisor
