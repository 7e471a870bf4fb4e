#include "libs/service/security/audit_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

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

void Add(Line* line, const char* name, const std::string& value) {
  if (!value.empty()) (*line)[name] = ToUtf8(value, kMaxField);
}

std::string Format(const AuditRecord& record, absl::Time now, int64_t left_out) {
  Line line;
  line["time"] = absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", now, absl::UTCTimeZone());
  Add(&line, "caller", record.caller);
  Add(&line, "role", record.role);
  Add(&line, "peer", record.peer);
  Add(&line, "method", record.method);
  Add(&line, "namespace", record.name_space);
  Add(&line, "name", record.name);
  Add(&line, "node", record.node);
  Add(&line, "request_id", record.request_id);
  line["code"] = absl::StatusCodeToString(record.code);
  if (left_out > 0) line["left_out"] = left_out;
  return absl::StrCat(line.dump(), "\n");
}

}  // namespace

absl::StatusOr<std::unique_ptr<AuditLog>> AuditLog::Open(const AuditOptions& options, const Clock* clock) {
  std::unique_ptr<AuditLog> log(new AuditLog(options, clock));
  MutexLock lock(&log->mutex_);
  if (const absl::Status status = log->Reopen(); !status.ok()) return status;
  return log;
}

AuditLog::~AuditLog() {
  if (fd_ >= 0) close(fd_);
}

void AuditLog::Write(const AuditRecord& record) {
  MutexLock lock(&mutex_);
  const absl::Time now = clock_->Now();
  if (record.refused && TooMany(now)) return;
  const std::string line = Format(record, now, record.refused ? left_out_ : 0);
  if (record.refused) left_out_ = 0;
  const absl::Status status = Append(line);
  if (status.ok()) return;
  log::Error("a record of the audit log can't be written",
             {{"file", options_.path}, {"reason", std::string(status.message())}});
}

bool AuditLog::TooMany(absl::Time now) {
  const int64_t second = absl::ToUnixSeconds(now);
  if (second != second_) refusals_ = 0;
  second_ = second;
  if (refusals_ < options_.max_refusals_per_second) {
    ++refusals_;
    return false;
  }
  ++left_out_;
  return true;
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
  for (int i = options_.max_old_files; i > 0; --i) {
    const std::string from = i == 1 ? options_.path : absl::StrCat(options_.path, ".", i - 1);
    const std::string to = absl::StrCat(options_.path, ".", i);
    if (rename(from.c_str(), to.c_str()) != 0 && errno != ENOENT) {
      return ErrnoStatus(errno, absl::StrCat("rename ", from, " to ", to));
    }
  }
  if (options_.max_old_files == 0) unlink(options_.path.c_str());
  return Reopen();
}

}  // namespace adaptdl::security
