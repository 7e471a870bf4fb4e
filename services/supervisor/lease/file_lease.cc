#include "services/supervisor/lease/file_lease.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "libs/base/file.h"
#include "libs/base/random_id.h"

namespace adaptdl::supervisor {
namespace {

namespace fs = std::filesystem;

constexpr char kPrefix[] = "leader-";
constexpr char kTemporary[] = ".tmp";
// A contender that was asleep since it looked must find newer files when it makes its own, so some stay.
constexpr int64_t kKeptFiles = 16;
constexpr int64_t kMaxFileBytes = 1 << 16;

// The first line, which is written in place: always of the same length.
std::string CounterLine(uint64_t counter, bool done) {
  return absl::StrFormat("%020u %s\n", counter, done ? "done" : "held");
}

std::string Serialize(const LeaseRecord& record) {
  return absl::StrCat("term=", record.term, "\nholder=", record.holder, "\nboot=", record.process.boot_id,
                      "\npid_namespace=", record.process.pid_namespace, "\npid=", record.process.pid,
                      "\nstart_time=", record.process.start_time,
                      "\nduration_ms=", absl::ToInt64Milliseconds(record.duration),
                      "\naddress=", record.address, "\ndatabase=", record.database, "\n");
}

absl::StatusOr<LeaseRecord> Parse(const std::string& path, int64_t sequence, const std::string& content) {
  LeaseRecord record;
  record.sequence = sequence;
  std::map<std::string, std::string> fields;
  bool first = true;
  for (absl::string_view line : absl::StrSplit(content, '\n')) {
    if (std::exchange(first, false)) {
      const std::pair<absl::string_view, absl::string_view> counter =
          absl::StrSplit(line, absl::MaxSplits(' ', 1));
      if (!absl::SimpleAtoi(counter.first, &record.renewals)) break;
      record.done = counter.second == "done";
      continue;
    }
    const std::pair<std::string, std::string> field = absl::StrSplit(line, absl::MaxSplits('=', 1));
    fields.insert(field);
  }
  record.holder = fields["holder"];
  record.process.boot_id = fields["boot"];
  record.process.pid_namespace = fields["pid_namespace"];
  record.address = fields["address"];
  record.database = fields["database"];
  int64_t duration_ms = 0;
  const bool whole = absl::SimpleAtoi(fields["term"], &record.term) &&
                     absl::SimpleAtoi(fields["duration_ms"], &duration_ms) &&
                     absl::SimpleAtoi(fields["pid"], &record.process.pid) &&
                     absl::SimpleAtoi(fields["start_time"], &record.process.start_time) &&
                     fields.contains("database");
  record.duration = absl::Milliseconds(duration_ms);
  const bool plain = record.database.find('/') == std::string::npos;
  if (!whole || !plain) return absl::DataLossError(absl::StrCat(path, ": is damaged"));
  return record;
}

// -1: it is none of the lease's files.
int64_t SequenceOf(const std::string& name) {
  int64_t sequence = 0;
  const absl::string_view number = absl::string_view(name).substr(std::min(name.size(), sizeof(kPrefix) - 1));
  const bool ours = absl::StartsWith(name, kPrefix) && absl::SimpleAtoi(number, &sequence) && sequence > 0;
  return ours ? sequence : -1;
}

absl::Status WriteSynced(const std::string& path, const std::string& content) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return ErrnoStatus(errno, path);
  const bool written = write(file, content.data(), content.size()) == static_cast<ssize_t>(content.size());
  const int error = written ? 0 : errno;
  const bool synced = written && fsync(file) == 0;
  close(file);
  if (synced) return absl::OkStatus();
  return error == ENOSPC ? ErrnoStatus(error, path)
                         : absl::UnavailableError(absl::StrCat(path, ": can't be written"));
}

absl::Status SyncFolder(const std::string& path) {
  const int folder = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool done = folder >= 0 && fsync(folder) == 0;
  const int error = errno;
  if (folder >= 0) close(folder);
  return done ? absl::OkStatus() : ErrnoStatus(error, path);
}

}  // namespace

FileLease::FileLease(const FileLeaseOptions& options, const SteadyClock* steady, const Clock* wall)
    : options_(options), steady_(*steady), wall_(*wall) {}

absl::StatusOr<std::unique_ptr<FileLease>> FileLease::Create(const FileLeaseOptions& options,
                                                             const SteadyClock* steady, const Clock* wall) {
  std::error_code error;
  fs::create_directories(options.folder + "/lease", error);
  if (error) {
    return absl::UnavailableError(
        absl::StrCat("--state-dir: can't make ", options.folder, "/lease: ", error.message()));
  }
  // The state, which holds secrets of groups, is the owner's.
  fs::permissions(options.folder, fs::perms::owner_all, error);
  return std::unique_ptr<FileLease>(new FileLease(options, steady, wall));
}

FileLease::~FileLease() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.SignalAll();
  }
  if (thread_.joinable()) thread_.join();
  MutexLock lock(&mutex_);
  valid_until_ = 0;
  if (file_ < 0) return;
  if (!lost_) WriteCounter(/*done=*/true).IgnoreError();  // Else the next one waits for its end.
  close(file_);
}

std::string FileLease::PathOf(int64_t sequence) const {
  return absl::StrCat(options_.folder, "/lease/", kPrefix, absl::StrFormat("%020d", sequence));
}

absl::StatusOr<int64_t> FileLease::NewestSequence() const {
  std::error_code error;
  int64_t newest = 0;
  for (fs::directory_iterator entry(options_.folder + "/lease", error), end; !error && entry != end;
       entry.increment(error)) {
    newest = std::max(newest, SequenceOf(entry->path().filename().string()));
  }
  if (error) return ErrnoStatus(error.value(), options_.folder + "/lease");
  return newest;
}

absl::StatusOr<LeaseRecord> FileLease::Read(int64_t sequence, std::string* content) const {
  const std::string path = PathOf(sequence);
  absl::StatusOr<std::string> text = ReadWholeFile(path, kMaxFileBytes);
  if (!text.ok()) return text.status();
  if (content != nullptr) *content = *text;
  return Parse(path, sequence, *text);
}

absl::StatusOr<std::string> FileLease::FindDatabase(int64_t sequence) const {
  for (; sequence > 0; --sequence) {
    const absl::StatusOr<LeaseRecord> record = Read(sequence, nullptr);
    if (absl::IsNotFound(record.status())) break;
    if (!record.ok()) return record.status();
    if (!record->database.empty()) return record->database;
  }
  return std::string(kFirstDatabase);
}

bool FileLease::MayBeOpen(int64_t sequence, const std::string& database) const {
  for (; sequence > 0; --sequence) {
    const absl::StatusOr<LeaseRecord> record = Read(sequence, nullptr);
    if (!record.ok()) return false;
    if (!record->database.empty() && record->database != database) return false;
    // Who had named it and gave the lease back had it alone, and has closed it.
    if (record->done && !record->database.empty()) return false;
    if (!record->done && !HasEnded(record->process)) return true;
  }
  return false;
}

bool FileLease::IsFree(const LeaseRecord& newest, const std::string& content, absl::Duration now) {
  if (newest.done) return true;
  if (HasEnded(newest.process)) return true;
  if (newest.sequence != seen_sequence_ || content != seen_content_) {
    seen_sequence_ = newest.sequence;
    seen_content_ = content;
    // Not before it was read: the holder counts from before it wrote.
    seen_since_ = steady_.Now();
    return false;
  }
  return now - seen_since_ >= newest.duration;
}

absl::StatusOr<bool> FileLease::TryAcquire() {
  // Before the file is read: the holder may renew it right after.
  const absl::Duration now = steady_.Now();
  const absl::StatusOr<int64_t> newest = NewestSequence();
  if (!newest.ok()) return newest.status();
  LeaseRecord before;
  if (*newest > 0) {
    std::string content;
    const absl::StatusOr<LeaseRecord> record = Read(*newest, &content);
    if (absl::IsNotFound(record.status())) return false;  // It was the newest one when we looked.
    if (!record.ok()) return record.status();
    before = *record;
    const bool free = IsFree(before, content, now);
    MutexLock lock(&mutex_);
    seen_ = before;
    if (!free) return false;
  }
  {
    MutexLock lock(&mutex_);
    const absl::StatusOr<bool> made = Make(*newest + 1, before.term, /*database=*/"");
    if (!made.ok() || !*made) return made;
    // Only now: until there was a newer file, the holder could name another one.
    const absl::StatusOr<std::string> database = FindDatabase(*newest);
    if (!database.ok()) return database.status();
    record_.database = *database;
    seen_.reset();
  }
  predecessor_may_live_ = MayBeOpen(*newest, this->database());
  RemoveOld();
  return true;
}

std::optional<LeaseRecord> FileLease::seen() const {
  MutexLock lock(&mutex_);
  return seen_;
}

absl::StatusOr<bool> FileLease::Make(int64_t sequence, int64_t last_term, const std::string& database) {
  LeaseRecord record;
  record.sequence = sequence;
  record.term = std::max(last_term + 1, absl::ToUnixMillis(wall_.Now()));
  record.holder = RandomHex(8);
  record.process = options_.process;
  record.duration = options_.duration;
  record.address = options_.address;
  record.database = database;
  const std::string temporary = absl::StrCat(options_.folder, "/lease/", record.holder, kTemporary);
  absl::Status status = WriteSynced(temporary, CounterLine(0, false) + Serialize(record));
  if (!status.ok()) {
    unlink(temporary.c_str());
    return status;
  }
  const int file = open(temporary.c_str(), O_WRONLY | O_CLOEXEC);
  const absl::Duration begin = steady_.Now();
  const bool linked = file >= 0 && link(temporary.c_str(), PathOf(sequence).c_str()) == 0;
  const int error = errno;
  unlink(temporary.c_str());
  if (!linked) {
    if (file >= 0) close(file);
    // Whoever has just taken the lease removes what it finds lying about.
    if (error == EEXIST || error == ENOENT) return false;
    return ErrnoStatus(error, PathOf(sequence));
  }
  const absl::StatusOr<int64_t> newest = NewestSequence();
  if (!newest.ok() || *newest > sequence) {
    // We have slept through somebody else's leadership, or can't say.
    close(file);
    if (!newest.ok()) return newest.status();
    return false;
  }
  if (file_ >= 0) close(file_);
  file_ = file;
  counter_ = 0;
  record_ = std::move(record);
  term_ = record_.term;
  valid_until_ = absl::ToInt64Nanoseconds(begin + options_.duration);
  changed_.SignalAll();
  return true;
}

void FileLease::RemoveOld() const {
  const int64_t own = sequence();
  std::error_code error;
  for (fs::directory_iterator entry(options_.folder + "/lease", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const int64_t number = SequenceOf(name);
    const bool old = number > 0 && number <= own - kKeptFiles;
    std::error_code ignored;
    if (old || absl::EndsWith(name, kTemporary)) fs::remove(entry->path(), ignored);
  }
}

absl::Status FileLease::WriteCounter(bool done) {
  const std::string line = CounterLine(++counter_, done);
  if (pwrite(file_, line.data(), line.size(), 0) == static_cast<ssize_t>(line.size()))
    return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(PathOf(record_.sequence), ": can't be written"));
}

absl::Status FileLease::Lose(const std::string& why) {
  valid_until_ = 0;
  changed_.SignalAll();
  if (!std::exchange(lost_, true)) options_.lost(why);
  return absl::FailedPreconditionError(why);
}

absl::Status FileLease::Renew() {
  MutexLock lock(&mutex_);
  if (lost_ || file_ < 0) return absl::FailedPreconditionError("the lease is not held");
  const absl::Duration begin = steady_.Now();
  const absl::StatusOr<int64_t> newest = NewestSequence();
  if (!newest.ok()) return absl::UnavailableError(newest.status().message());
  if (*newest > record_.sequence) return Lose("another supervisor leads");
  if (begin < absl::Nanoseconds(valid_until_.load())) {
    if (const absl::Status status = WriteCounter(false); !status.ok()) return status;
    // Later than that somebody may have found it unchanged.
    if (steady_.Now() < absl::Nanoseconds(valid_until_.load())) {
      valid_until_ = absl::ToInt64Nanoseconds(begin + options_.duration);
      changed_.SignalAll();
      return absl::OkStatus();
    }
  }
  const std::string database = record_.database;
  const absl::StatusOr<bool> made = Make(record_.sequence + 1, record_.term, named_ ? database : "");
  if (!made.ok()) return absl::UnavailableError(made.status().message());
  record_.database = database;
  return *made ? absl::OkStatus() : Lose("another supervisor leads");
}

void FileLease::StartRenewal() {
  thread_ = std::thread([this] { RenewUntilStopped(); });
}

void FileLease::RenewUntilStopped() {
  while (true) {
    {
      MutexLock lock(&mutex_);
      if (!stopping_) changed_.WaitFor(&mutex_, options_.renew_period);
      if (stopping_ || lost_) return;
    }
    Renew().IgnoreError();  // Whoever needs the lease asks Valid().
  }
}

std::string FileLease::database() const {
  MutexLock lock(&mutex_);
  return record_.database;
}

absl::Status FileLease::SetDatabase(const std::string& name) {
  for (bool named = false; !named;) {
    const absl::StatusOr<bool> result = TrySetDatabase(name);
    if (!result.ok()) return result.status();
    named = *result;
  }
  if (const absl::Status status = SyncFolder(options_.folder + "/lease"); !status.ok()) return status;
  // Whoever takes the lease from now on reads the new name; whoever has taken it may have read the old one.
  const absl::StatusOr<int64_t> newest = NewestSequence();
  if (!newest.ok()) return newest.status();
  MutexLock lock(&mutex_);
  return *newest > record_.sequence ? Lose("another supervisor leads") : absl::OkStatus();
}

absl::StatusOr<bool> FileLease::TrySetDatabase(const std::string& name) {
  LeaseRecord record;
  {
    MutexLock lock(&mutex_);
    record = record_;
  }
  record.database = name;
  const std::string temporary = absl::StrCat(options_.folder, "/lease/", RandomHex(8), kTemporary);
  const auto remove = absl::MakeCleanup([&temporary] { unlink(temporary.c_str()); });
  // Without the mutex: the lease is renewed meanwhile, however slow the disk is.
  const absl::Status written = WriteSynced(temporary, CounterLine(0, false) + Serialize(record));
  if (!written.ok()) return written;
  MutexLock lock(&mutex_);
  if (lost_ || file_ < 0) return absl::FailedPreconditionError("the lease is not held");
  if (record.sequence != record_.sequence) return false;  // It had to be taken again meanwhile.
  const int file = open(temporary.c_str(), O_WRONLY | O_CLOEXEC);
  if (file < 0) return ErrnoStatus(errno, temporary);
  if (rename(temporary.c_str(), PathOf(record.sequence).c_str()) != 0) {
    const int error = errno;
    close(file);
    return ErrnoStatus(error, PathOf(record.sequence));
  }
  close(std::exchange(file_, file));
  record_.database = name;
  named_ = true;
  return true;
}

int64_t FileLease::sequence() const {
  MutexLock lock(&mutex_);
  return record_.sequence;
}

int64_t FileLease::term() const { return term_; }

bool FileLease::Valid() const { return steady_.Now() < absl::Nanoseconds(valid_until_.load()); }

absl::Status FileLease::AwaitValid(absl::Duration timeout) {
  if (Valid()) return absl::OkStatus();  // Without the mutex.
  const absl::Duration deadline = steady_.Now() + timeout;
  MutexLock lock(&mutex_);
  while (!Valid()) {
    const absl::Duration left = deadline - steady_.Now();
    if (lost_) return absl::FailedPreconditionError("another supervisor leads");
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError("this supervisor could not renew its lease; is its disk writable?");
    }
    changed_.WaitFor(&mutex_, left);
  }
  return absl::OkStatus();
}

void FileLease::GiveUp(const std::string& why) {
  MutexLock lock(&mutex_);
  Lose(why).IgnoreError();
}

}  // namespace adaptdl::supervisor
