#include "libs/elastic/checkpoint/checkpoint_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "libs/base/file.h"
#include "libs/base/random_id.h"
#include "libs/base/say.h"
#include "nlohmann/json.hpp"

namespace adaptdl::elastic {
namespace {

namespace fs = std::filesystem;

constexpr char kManifest[] = "MANIFEST";
constexpr char kPrefix[] = "checkpoint-";
constexpr char kWritingPrefix[] = ".writing-";

std::string Checksum(absl::string_view content) {
  uLong sum = crc32(0, nullptr, 0);
  constexpr size_t kPiece = size_t{1} << 30;
  for (size_t begin = 0; begin < content.size(); begin += kPiece) {
    const absl::string_view piece = content.substr(begin, kPiece);
    sum = crc32(sum, reinterpret_cast<const Bytef*>(piece.data()), static_cast<uInt>(piece.size()));
  }
  return absl::StrFormat("%08x", sum);
}

std::optional<int64_t> VersionOf(absl::string_view name) {
  int64_t version = 0;
  if (!absl::ConsumePrefix(&name, kPrefix) || !absl::SimpleAtoi(name, &version) || version < 0) {
    return std::nullopt;
  }
  return version;
}

// Versions in the folder, valid or not, newest first.
std::vector<int64_t> VersionsIn(const std::string& folder) {
  std::vector<int64_t> versions;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (auto version = VersionOf(entry.path().filename().string())) versions.push_back(*version);
  }
  std::sort(versions.begin(), versions.end(), std::greater<>());
  return versions;
}

// Group whose unfinished checkpoint bears this name.
std::optional<int64_t> WriterOf(absl::string_view name) {
  int64_t group = 0;
  if (!absl::ConsumePrefix(&name, kWritingPrefix) ||
      !absl::SimpleAtoi(name.substr(0, name.find('-')), &group)) {
    return std::nullopt;
  }
  return group;
}

std::string FolderOf(const std::string& folder, int64_t version) {
  return absl::StrCat(folder, "/", kPrefix, version);
}

absl::Status SyncFolder(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, absl::StrCat("cannot open ", path));
  const int result = fsync(fd);
  const int error = errno;
  close(fd);
  return result == 0 ? absl::OkStatus() : ErrnoStatus(error, absl::StrCat("cannot sync ", path));
}

std::string MakeManifest(int64_t group, const StateMap& states) {
  nlohmann::json files = nlohmann::json::array();
  for (const auto& [name, content] : states) {
    files.push_back({{"name", name}, {"bytes", content.size()}, {"crc32", Checksum(content)}});
  }
  const std::string body = nlohmann::json{{"format", 1}, {"group", group}, {"files", files}}.dump();
  return absl::StrCat(body, "\ncrc32 ", Checksum(body), "\n");
}

absl::StatusOr<nlohmann::json> ReadManifest(const std::string& folder) {
  auto text = ReadWholeFile(absl::StrCat(folder, "/", kManifest));
  if (!text.ok()) return text.status();
  const size_t end = text->find('\n');
  if (end == std::string::npos ||
      text->substr(end) != absl::StrCat("\ncrc32 ", Checksum(text->substr(0, end)), "\n")) {
    return absl::DataLossError("its manifest is damaged");
  }
  try {
    return nlohmann::json::parse(text->substr(0, end));
  } catch (const std::exception& error) {
    return absl::DataLossError(absl::StrCat("its manifest is damaged: ", error.what()));
  }
}

// State names become file names.
bool IsFileName(absl::string_view name) {
  return !name.empty() && name.size() <= 200 && name[0] != '.' && name != kManifest &&
         !absl::StrContains(name, '/') && !absl::StrContains(name, '\0');
}

absl::StatusOr<Checkpoint> ReadCheckpoint(const std::string& folder, int64_t version) {
  const std::string path = FolderOf(folder, version);
  auto manifest = ReadManifest(path);
  if (!manifest.ok()) return manifest.status();
  Checkpoint checkpoint;
  checkpoint.version = version;
  try {
    if (manifest->at("format") != 1) return absl::DataLossError("it is of a newer format");
    checkpoint.group = manifest->at("group");
    for (const auto& file : manifest->at("files")) {
      const std::string name = file.at("name");
      if (!IsFileName(name)) return absl::DataLossError("its manifest names what is no file of it");
      const int64_t bytes = file.at("bytes");
      auto content = ReadWholeFile(absl::StrCat(path, "/", name), bytes);
      if (!content.ok()) return content.status();
      if (static_cast<int64_t>(content->size()) != bytes || file.at("crc32") != Checksum(*content)) {
        return absl::DataLossError(absl::StrCat("its file ", name, " is damaged"));
      }
      checkpoint.states[name] = *std::move(content);
    }
  } catch (const std::exception& error) {
    return absl::DataLossError(absl::StrCat("its manifest is damaged: ", error.what()));
  }
  return checkpoint;
}

}  // namespace

CheckpointStore::CheckpointStore(Options options) : options_(std::move(options)), group_(options_.group) {}

absl::StatusOr<int64_t> CheckpointStore::Save(const StateMap& states) {
  std::error_code error;
  fs::create_directories(options_.folder, error);
  if (error) {
    return ErrnoStatus(error.value(), absl::StrCat("cannot make the checkpoint folder ", options_.folder));
  }
  const std::vector<int64_t> versions = VersionsIn(options_.folder);
  for (int64_t version : versions) {
    auto manifest = ReadManifest(FolderOf(options_.folder, version));
    if (manifest.ok() && manifest->value("group", int64_t{0}) > group_.load()) {
      return absl::AbortedError(absl::StrCat("group ", manifest->value("group", int64_t{0}),
                                             " has written a checkpoint; this is group ", group_.load()));
    }
  }
  const int64_t version = versions.empty() ? 1 : versions.front() + 1;
  // Before writing, as they may be what fills the disk.
  RemoveUnfinished();
  const std::string writing =
      absl::StrCat(options_.folder, "/", kWritingPrefix, group_.load(), "-", RandomHex(4));
  absl::Status status = WriteStates(writing, states);
  if (status.ok()) status = BeforeStep("rename");
  if (status.ok()) {
    const std::string final_path = FolderOf(options_.folder, version);
    if (std::rename(writing.c_str(), final_path.c_str()) != 0) {
      status = ErrnoStatus(errno, absl::StrCat("cannot rename ", writing, " to ", final_path));
    }
  }
  if (status.ok()) status = SyncFolder(options_.folder);
  if (!status.ok()) {
    fs::remove_all(writing, error);
    return status;
  }
  RemoveOld(version);
  return version;
}

absl::Status CheckpointStore::WriteStates(const std::string& folder, const StateMap& states) const {
  if (absl::Status status = BeforeStep("folder"); !status.ok()) return status;
  if (mkdir(folder.c_str(), 0755) != 0) return ErrnoStatus(errno, absl::StrCat("cannot make ", folder));
  for (const auto& [name, content] : states) {
    if (!IsFileName(name)) {
      return absl::InvalidArgumentError(absl::StrCat("the state name \"", name, "\" cannot be a file name"));
    }
    if (absl::Status status = BeforeStep(name); !status.ok()) return status;
    if (absl::Status status = WriteFile(absl::StrCat(folder, "/", name), content); !status.ok())
      return status;
  }
  if (absl::Status status = BeforeStep(kManifest); !status.ok()) return status;
  const absl::Status status =
      WriteFile(absl::StrCat(folder, "/", kManifest), MakeManifest(group_.load(), states));
  return status.ok() ? SyncFolder(folder) : status;
}

absl::Status CheckpointStore::WriteFile(const std::string& path, absl::string_view content) const {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) return ErrnoStatus(errno, absl::StrCat("cannot create ", path));
  absl::Status status;
  while (!content.empty() && status.ok()) {
    const ssize_t written = write(fd, content.data(), std::min<size_t>(content.size(), size_t{1} << 26));
    if (written >= 0) {
      content.remove_prefix(static_cast<size_t>(written));
    } else if (errno != EINTR) {
      status = ErrnoStatus(errno, absl::StrCat("cannot write ", path));
    }
  }
  if (status.ok() && fsync(fd) != 0) status = ErrnoStatus(errno, absl::StrCat("cannot sync ", path));
  if (close(fd) != 0 && status.ok()) status = ErrnoStatus(errno, absl::StrCat("cannot close ", path));
  return status;
}

absl::Status CheckpointStore::BeforeStep(absl::string_view step) const {
  return options_.before_step ? options_.before_step(step) : absl::OkStatus();
}

void CheckpointStore::RemoveOld(int64_t newest) const {
  std::error_code error;
  // The newest is valid, we wrote it; of the older ones only valid ones count as kept.
  int kept = 1;
  for (int64_t version : VersionsIn(options_.folder)) {
    if (version >= newest) continue;
    const std::string path = FolderOf(options_.folder, version);
    if (kept < options_.keep && !damaged_.contains(version) && ReadManifest(path).ok()) {
      ++kept;
      continue;
    }
    fs::remove_all(path, error);
  }
}

// What a newer group writes stays.
void CheckpointStore::RemoveUnfinished() const {
  std::error_code error;
  std::vector<fs::path> unfinished;
  for (const auto& entry : fs::directory_iterator(options_.folder, error)) {
    const std::optional<int64_t> group = WriterOf(entry.path().filename().string());
    if (group && *group <= group_.load()) unfinished.push_back(entry.path());
  }
  for (const fs::path& path : unfinished) fs::remove_all(path, error);
}

absl::StatusOr<Checkpoint> CheckpointStore::LoadNewest() {
  for (int64_t version : VersionsIn(options_.folder)) {
    auto checkpoint = ReadCheckpoint(options_.folder, version);
    if (checkpoint.ok()) return checkpoint;
    damaged_.insert(version);
    Say(Severity::kWarning, absl::StrCat("passing over ", FolderOf(options_.folder, version), ": ",
                                         checkpoint.status().message()));
  }
  return absl::NotFoundError(absl::StrCat("there is no checkpoint in ", options_.folder));
}

}  // namespace adaptdl::elastic
