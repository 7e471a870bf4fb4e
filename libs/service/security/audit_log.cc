#include "libs/service/security/audit_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/base/file.h"
#include "libs/base/utf8.h"
#include "libs/service/log.h"
#include "nlohmann/json.hpp"

namespace adaptdl::security {
namespace {

// Callers choose what stands in a request: a record takes no more of it than names need.
constexpr size_t kMaxField = 256;

// Keeps the order in which fields are added.
using Line = nlohmann::ordered_json;

std::string TimeText(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", time, absl::UTCTimeZone());
}

void Add(Line* line, const char* name, const std::string& value) {
  if (!value.empty()) (*line)[name] = ToUtf8(value, kMaxField);
}

Line Describe(const AuditRecord& record, absl::Time now) {
  Line line;
  line["time"] = TimeText(now);
  Add(&line, "caller", record.caller);
  Add(&line, "role", record.role);
  Add(&line, "peer", record.peer);
  Add(&line, "method", record.method);
  Add(&line, "namespace", record.name_space);
  Add(&line, "name", record.name);
  Add(&line, "node", record.node);
  Add(&line, "request_id", record.request_id);
  line["code"] = absl::StatusCodeToString(record.code);
  return line;
}

std::string ToText(const Line& line) { return absl::StrCat(line.dump(), "\n"); }

// Whose failure it is.
std::string CallerOf(const AuditRecord& record) {
  if (!record.caller.empty()) return record.caller;
  return absl::StrCat("?", record.peer.substr(0, record.peer.rfind(':')));
}

std::string KeyOf(const AuditRecord& record) {
  // A NUL can't be in names that anybody has; in those that somebody made up it does not matter.
  const absl::string_view nul("\0", 1);
  return absl::StrCat(CallerOf(record), nul, record.method, nul, record.name_space, nul, record.name, nul,
                      record.node, nul, static_cast<int>(record.code));
}

std::string OldFile(const std::string& path, int number) { return absl::StrCat(path, ".", number); }

}  // namespace

absl::StatusOr<std::unique_ptr<AuditLog>> AuditLog::Open(const AuditOptions& options, const Clock* clock) {
  std::unique_ptr<AuditLog> log(new AuditLog(options, clock));
  MutexLock lock(&log->mutex_);
  if (const absl::Status status = log->Reopen(); !status.ok()) return status;
  log->Prune();
  return log;
}

AuditLog::~AuditLog() {
  MutexLock lock(&mutex_);
  Unfold(absl::InfiniteFuture());
  if (fd_ >= 0) close(fd_);
}

void AuditLog::Write(const AuditRecord& record) {
  MutexLock lock(&mutex_);
  const absl::Time now = clock_->Now();
  if (now >= next_unfold_) Unfold(now);
  const bool failed = record.code != absl::StatusCode::kOk;
  if (failed && !TakeFailure(record, now)) return;
  Line line = Describe(record, now);
  const auto left_out = failed ? left_out_.find(CallerOf(record)) : left_out_.end();
  if (left_out != left_out_.end()) {
    line["left_out"] = left_out->second;
    left_out_.erase(left_out);
  }
  WriteLine(ToText(line));
}

bool AuditLog::TakeFailure(const AuditRecord& record, absl::Time now) {
  const std::string key = KeyOf(record);
  const auto earlier = folded_.find(key);
  if (earlier != folded_.end()) {
    ++earlier->second.repeated;
    earlier->second.last = now;
    return false;
  }
  if (!failures_.Take(CallerOf(record), clock_->Steady())) {
    ++left_out_[CallerOf(record)];
    return false;
  }
  folded_[key] = {record, now, now, 0};
  next_unfold_ = std::min(next_unfold_, now + options_.fold_within);
  return true;
}

void AuditLog::Unfold(absl::Time now) {
  next_unfold_ = absl::InfiniteFuture();
  for (auto it = folded_.begin(); it != folded_.end();) {
    Folded& folded = it->second;
    const absl::Time end = folded.first + options_.fold_within;
    if (now < end) {
      next_unfold_ = std::min(next_unfold_, end);
      ++it;
      continue;
    }
    if (folded.repeated > 0) {
      // Each of them had its own.
      folded.record.request_id.clear();
      Line line = Describe(folded.record, folded.last);
      line["repeated"] = folded.repeated;
      line["since"] = TimeText(folded.first);
      WriteLine(ToText(line));
    }
    it = folded_.erase(it);
  }
}

void AuditLog::WriteLine(const std::string& line) {
  const absl::Status status = Append(line);
  if (status.ok()) return;
  log::Error("a record of the audit log can't be written",
             {{"file", options_.path}, {"reason", std::string(status.message())}});
}

absl::Status AuditLog::Reopen() {
  struct stat there {
  }, here{};
  const bool same = fd_ >= 0 && stat(options_.path.c_str(), &there) == 0 && fstat(fd_, &here) == 0 &&
                    there.st_dev == here.st_dev && there.st_ino == here.st_ino;
  if (!same) {
    if (fd_ >= 0) close(fd_);
    fd_ = open(options_.path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd_ < 0 || fstat(fd_, &here) != 0)
      return ErrnoStatus(errno, absl::StrCat("open the audit log ", options_.path));
  }
  bytes_ = here.st_size;
  return absl::OkStatus();
}

absl::Status AuditLog::Append(const std::string& line) {
  absl::Status status = Reopen();
  if (status.ok() && bytes_ > 0 && bytes_ + static_cast<int64_t>(line.size()) > options_.max_bytes) {
    status = Rotate();
  }
  if (!status.ok()) return status;
  absl::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t written = write(fd_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoStatus(errno, absl::StrCat("write ", options_.path));
    rest.remove_prefix(written);
  }
  return absl::OkStatus();
}

absl::Status AuditLog::Rotate() {
  int last = 0;
  struct stat there {};
  while (stat(OldFile(options_.path, last + 1).c_str(), &there) == 0) ++last;
  for (int i = last + 1; i > 0; --i) {
    const std::string from = i == 1 ? options_.path : OldFile(options_.path, i - 1);
    const std::string to = OldFile(options_.path, i);
    if (rename(from.c_str(), to.c_str()) != 0 && errno != ENOENT) {
      return ErrnoStatus(errno, absl::StrCat("rename ", from, " to ", to));
    }
  }
  Prune();
  return Reopen();
}

void AuditLog::Prune() {
  const absl::Time oldest = clock_->Now() - options_.keep;
  // There is to be room for the file that is begun.
  int64_t bytes = options_.max_bytes;
  struct stat file {};
  for (int i = 1; stat(OldFile(options_.path, i).c_str(), &file) == 0; ++i) {
    bytes += file.st_size;
    const bool old = absl::TimeFromTimespec(file.st_mtim) < oldest;
    if (!old && bytes <= options_.max_total_bytes) continue;
    if (!old) {
      log::Warning("records of the audit log go before their time: it takes too much of the disk",
                   {{"file", OldFile(options_.path, i)},
                    {"until", TimeText(absl::TimeFromTimespec(file.st_mtim))},
                    {"limit", absl::StrCat(options_.max_total_bytes, " bytes")}});
    }
    unlink(OldFile(options_.path, i).c_str());
  }
}

}  // namespace adaptdl::security
