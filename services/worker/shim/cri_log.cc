#include "services/worker/shim/cri_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/worker/shim/records.h"

namespace adaptdl::worker {
namespace {

// Entries are written together up to this size, which also bounds by how much a file outgrows its limit.
constexpr int64_t kBatchBytes = 64 << 10;

}  // namespace

CriLogWriter::CriLogWriter(Options options)
    : options_([&options] {
        if (!options.write)
          options.write = [](int fd, const void* data, size_t size) { return write(fd, data, size); };
        options.max_files = std::max(options.max_files, 1);
        return std::move(options);
      }()) {}

CriLogWriter::~CriLogWriter() {
  if (fd_ >= 0) close(fd_);
}

void CriLogWriter::Append(LogStream stream, absl::string_view data, absl::Time now) {
  const std::string timestamp = FormatTimestamp(now);
  std::string& pending = pending_[static_cast<int>(stream)];
  while (!data.empty()) {
    const size_t line_end = data.find('\n');
    const bool ends = line_end != absl::string_view::npos;
    const absl::string_view piece = data.substr(0, ends ? line_end : data.size());
    const absl::string_view taken = piece.substr(0, kMaxLogText - pending.size());
    if (taken.size() < piece.size()) {  // longer than an entry may be
      AddEntry(stream, /*partial=*/true, absl::StrCat(pending, taken), timestamp);
      pending.clear();
      data.remove_prefix(taken.size());
      continue;
    }
    if (ends) {
      AddEntry(stream, /*partial=*/false, pending.empty() ? taken : absl::StrCat(pending, taken), timestamp);
      pending.clear();
    } else {
      pending.append(taken.data(), taken.size());
    }
    data.remove_prefix(taken.size() + (ends ? 1 : 0));
    if (static_cast<int64_t>(batch_.size()) >= std::min(kBatchBytes, options_.max_file_bytes)) Flush(now);
  }
  Flush(now);
}

void CriLogWriter::AppendNote(absl::string_view text, absl::Time now) {
  AddEntry(LogStream::kStderr, /*partial=*/false, absl::StrCat("adaptdl: ", text), FormatTimestamp(now));
  Flush(now);
}

void CriLogWriter::Finish(absl::Time now) {
  const std::string timestamp = FormatTimestamp(now);
  for (const LogStream stream : {LogStream::kStdout, LogStream::kStderr}) {
    std::string& pending = pending_[static_cast<int>(stream)];
    if (!pending.empty()) AddEntry(stream, /*partial=*/false, pending, timestamp);
    pending.clear();
  }
  Flush(now);
}

void CriLogWriter::AddEntry(LogStream stream, bool partial, absl::string_view text,
                            absl::string_view timestamp) {
  absl::StrAppend(&batch_, timestamp, stream == LogStream::kStdout ? " stdout " : " stderr ",
                  partial ? "P " : "F ", text, "\n");
  batch_text_ += static_cast<int64_t>(text.size()) + (partial ? 0 : 1);
}

void CriLogWriter::Flush(absl::Time now) {
  if (batch_.empty()) return;
  if (unreported_dropped_ > 0) ReportDropped(now);
  if (unreported_dropped_ > 0 || !WriteEntries(batch_)) {
    unreported_dropped_ += batch_text_;
    total_dropped_ += batch_text_;
  }
  batch_.clear();
  batch_text_ = 0;
}

void CriLogWriter::ReportDropped(absl::Time now) {
  const std::string note = absl::StrCat(FormatTimestamp(now), " stderr F adaptdl: ", unreported_dropped_,
                                        " bytes of output are missing here: the log could not be written (",
                                        strerror(last_error_), ")\n");
  if (WriteEntries(note)) unreported_dropped_ = 0;
}

bool CriLogWriter::WriteEntries(absl::string_view entries) {
  if (!EnsureOpen()) return false;
  if (file_bytes_ > 0 && file_bytes_ + static_cast<int64_t>(entries.size()) > options_.max_file_bytes) {
    Rotate();
    if (!EnsureOpen()) return false;
  }
  absl::string_view rest = entries;
  while (!rest.empty()) {
    const ssize_t written = options_.write(fd_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      last_error_ = written < 0 ? errno : ENOSPC;
      // Cut off what was written of it, so that readers never see half an entry.
      if (ftruncate(fd_, file_bytes_) != 0) last_error_ = errno;
      return false;
    }
    rest.remove_prefix(written);
  }
  file_bytes_ += static_cast<int64_t>(entries.size());
  return true;
}

bool CriLogWriter::EnsureOpen() {
  if (fd_ >= 0) return true;
  fd_ = open(options_.path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
  if (fd_ < 0) {
    last_error_ = errno;
    return false;
  }
  struct stat info = {};
  file_bytes_ = fstat(fd_, &info) == 0 ? info.st_size : 0;
  return true;
}

void CriLogWriter::Rotate() {
  const auto name = [this](int number) {
    return number == 0 ? options_.path : absl::StrCat(options_.path, ".", number);
  };
  close(fd_);
  fd_ = -1;
  if (options_.max_files == 1) {
    unlink(options_.path.c_str());
    return;
  }
  for (int number = options_.max_files - 2; number >= 0; --number) {
    rename(name(number).c_str(), name(number + 1).c_str());
  }
}

}  // namespace adaptdl::worker
