#include "services/worker/log_cursor.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "services/worker/shim/records.h"

namespace adaptdl::worker {
namespace {

constexpr size_t kReadBytes = 64 << 10;
// More rotated files than any shim keeps.
constexpr int kMaxFiles = 100;

// Where the last `*lines` entries of the file begin; `*lines` becomes the number that the file did not have.
int64_t FindTail(int fd, int64_t size, int* lines) {
  std::string block;
  int64_t end = size;
  bool at_end = true;
  while (end > 0) {
    const int64_t begin = std::max<int64_t>(0, end - static_cast<int64_t>(kReadBytes));
    block.resize(end - begin);
    if (pread(fd, block.data(), block.size(), begin) != static_cast<ssize_t>(block.size())) return begin;
    for (int64_t i = static_cast<int64_t>(block.size()) - 1; i >= 0; --i) {
      if (block[i] != '\n') continue;
      const bool is_last_line_end = at_end && begin + i == size - 1;
      at_end = false;
      if (is_last_line_end) continue;
      if (--*lines == 0) return begin + i + 1;
    }
    end = begin;
  }
  if (size > 0) --*lines;
  return 0;
}

}  // namespace

std::optional<LogEntry> ParseLogEntry(absl::string_view line) {
  const size_t time_end = line.find(' ');
  if (time_end == absl::string_view::npos) return std::nullopt;
  LogEntry entry;
  std::string error;
  if (!absl::ParseTime(absl::RFC3339_full, line.substr(0, time_end), &entry.time, &error))
    return std::nullopt;
  absl::string_view rest = line.substr(time_end + 1);
  if (!absl::StartsWith(rest, "stdout ") && !absl::StartsWith(rest, "stderr ")) return std::nullopt;
  entry.is_stderr = rest[3] == 'e';
  rest.remove_prefix(7);
  if (!absl::StartsWith(rest, "F ") && !absl::StartsWith(rest, "P ")) return std::nullopt;
  entry.partial = rest[0] == 'P';
  entry.text = std::string(rest.substr(2));
  return entry;
}

LogCursor::LogCursor(std::string folder, int tail_lines) : folder_(std::move(folder)) {
  files_ = OpenAll();
  if (tail_lines > 0) SkipTo(tail_lines);
}

LogCursor::~LogCursor() {
  for (const File& file : files_) close(file.fd);
}

std::deque<LogCursor::File> LogCursor::OpenAll() const {
  // From the newest to the oldest: a file that is rotated meanwhile is met twice, and taken once.
  std::deque<File> files;
  for (int number = 0; number < kMaxFiles; ++number) {
    const std::string path = number == 0 ? absl::StrCat(folder_, "/", kLogFile)
                                         : absl::StrCat(folder_, "/", kLogFile, ".", number);
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 && number == 0) continue;  // just rotated, the next one is not made yet
    if (fd < 0) break;
    struct stat info = {};
    fstat(fd, &info);
    const bool known =
        std::any_of(files.begin(), files.end(), [&](const File& f) { return f.inode == info.st_ino; });
    if (known || !S_ISREG(info.st_mode)) {
      close(fd);
      continue;
    }
    files.push_front({fd, info.st_ino});
  }
  return files;
}

void LogCursor::SkipTo(int tail_lines) {
  int lines = tail_lines;
  size_t first = files_.size();
  while (first > 0 && lines > 0) {
    --first;
    struct stat info = {};
    fstat(files_[first].fd, &info);
    offset_ = FindTail(files_[first].fd, info.st_size, &lines);
  }
  for (size_t i = 0; i < first; ++i) {
    close(files_.front().fd);
    files_.pop_front();
  }
}

std::vector<LogEntry> LogCursor::Read(size_t max_bytes) {
  std::vector<LogEntry> entries;
  size_t bytes = 0;
  while (bytes < max_bytes) {
    const size_t line_end = buffer_.find('\n', parsed_);
    if (line_end == std::string::npos) {
      if (Fill() || Advance()) continue;
      break;
    }
    if (std::optional<LogEntry> entry =
            ParseLogEntry(absl::string_view(buffer_).substr(parsed_, line_end - parsed_))) {
      entries.push_back(*std::move(entry));
    }
    bytes += line_end + 1 - parsed_;
    parsed_ = line_end + 1;
  }
  return entries;
}

bool LogCursor::Fill() {
  if (files_.empty()) return false;
  buffer_.erase(0, parsed_);
  parsed_ = 0;
  const size_t old_size = buffer_.size();
  buffer_.resize(old_size + kReadBytes);
  const ssize_t count = pread(files_.front().fd, buffer_.data() + old_size, kReadBytes, offset_);
  buffer_.resize(old_size + std::max<ssize_t>(count, 0));
  offset_ += std::max<ssize_t>(count, 0);
  return count > 0;
}

bool LogCursor::Advance() {
  if (files_.empty()) {
    files_ = OpenAll();
    offset_ = 0;
    return !files_.empty();
  }
  if (files_.size() == 1) {
    std::deque<File> all = OpenAll();
    // Ours is the one being written as long as nothing comes after it. If it is gone, all that is there is
    // newer.
    const ino_t ours = files_.front().inode;
    while (!all.empty() &&
           std::any_of(all.begin(), all.end(), [&](const File& f) { return f.inode == ours; })) {
      close(all.front().fd);
      all.pop_front();
    }
    for (const File& file : all) files_.push_back(file);
    // It may have grown between our last look and its rotation.
    if (files_.size() == 1 || Fill()) return files_.size() > 1;
  }
  close(files_.front().fd);
  files_.pop_front();
  offset_ = 0;
  buffer_.clear();
  parsed_ = 0;
  return true;
}

}  // namespace adaptdl::worker
