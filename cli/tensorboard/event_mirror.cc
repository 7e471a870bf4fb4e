#include "cli/tensorboard/event_mirror.h"

#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/format.h"
#include "libs/base/file.h"

namespace adaptdl::cli {
namespace {

bool StaysInside(absl::string_view path) {
  for (const absl::string_view part : absl::StrSplit(path, '/')) {
    if (part.empty() || part == "." || part == ".." || part.find('\0') != absl::string_view::npos)
      return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<std::unique_ptr<EventMirror>> EventMirror::Create(int64_t max_bytes) {
  std::error_code error;
  std::string folder = (std::filesystem::temp_directory_path(error) / "adaptdl-tensorboard-XXXXXX").string();
  if (error || mkdtemp(folder.data()) == nullptr) return ErrnoStatus(errno, absl::StrCat("make ", folder));
  return std::unique_ptr<EventMirror>(new EventMirror(std::move(folder), max_bytes));
}

EventMirror::~EventMirror() {
  std::error_code error;
  std::filesystem::remove_all(folder_, error);
}

absl::Status EventMirror::Begin(const std::string& path, int64_t size) {
  const auto [known, is_new] = sizes_.try_emplace(path, 0);
  if (!is_new && size >= known->second) return absl::OkStatus();
  bytes_ -= known->second;
  known->second = 0;
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  std::ofstream file(path, std::ios::trunc | std::ios::binary);
  return file.good() ? absl::OkStatus() : absl::UnavailableError(absl::StrCat("can't write ", path));
}

absl::Status EventMirror::Take(absl::string_view job, absl::string_view path, int64_t size, int64_t offset,
                               absl::string_view data) {
  if (!StaysInside(job) || !StaysInside(path)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the server sent the path \"", Printable(path), "\", which is refused"));
  }
  const std::string copy = absl::StrCat(folder_, "/", job, "/", path);
  if (offset == 0) {
    if (absl::Status status = Begin(copy, size); !status.ok()) return status;
  }
  const auto known = sizes_.find(copy);
  if (known == sizes_.end() || offset > known->second) {
    return absl::InvalidArgumentError(
        absl::StrCat("the server sent the pieces of ", Printable(path), " out of order"));
  }
  const auto length = static_cast<int64_t>(data.size());
  if (offset + length <= known->second) return absl::OkStatus();
  const absl::string_view fresh = data.substr(known->second - offset);
  if (bytes_ + static_cast<int64_t>(fresh.size()) > max_bytes_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("what the jobs have logged is more than ", FormatBytes(max_bytes_), "B"));
  }
  std::ofstream file(copy, std::ios::app | std::ios::binary);
  file.write(fresh.data(), static_cast<std::streamsize>(fresh.size()));
  file.flush();
  if (!file.good()) return absl::UnavailableError(absl::StrCat("can't write ", copy));
  known->second += static_cast<int64_t>(fresh.size());
  bytes_ += static_cast<int64_t>(fresh.size());
  return absl::OkStatus();
}

}  // namespace adaptdl::cli
