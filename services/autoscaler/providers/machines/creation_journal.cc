#include "services/autoscaler/providers/machines/creation_journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/base/file.h"
#include "nlohmann/json.hpp"

namespace adaptdl::autoscaler {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int64_t kMaxFileBytes = 1 << 20;
constexpr char kSuffix[] = ".json";

std::string ToJson(const Creation& creation) {
  return json{{"key", creation.key},
              {"count", creation.count},
              {"time", absl::ToUnixMillis(creation.time)},
              {"parameters", creation.parameters},
              {"answered", creation.answered},
              {"unseen", creation.unseen}}
      .dump();
}

// Throws where a field is not there, or another type.
Creation FromJson(const json& file) {
  return {.key = file.at("key"),
          .count = file.at("count"),
          .time = absl::FromUnixMillis(file.at("time").get<int64_t>()),
          .parameters = file.at("parameters").get<std::vector<std::pair<std::string, std::string>>>(),
          .answered = file.at("answered"),
          .unseen = file.at("unseen").get<std::set<std::string>>()};
}

absl::StatusOr<Creation> Parse(const std::string& path, const std::string& text) {
  const json file = json::parse(text, nullptr, /*allow_exceptions=*/false);
  try {
    return FromJson(file);
  } catch (const json::exception& error) {
    return absl::DataLossError(absl::StrCat(path, " is no record of a creation (", error.what(),
                                            "): look for machines with its name as tag, and delete it"));
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<CreationJournal>> CreationJournal::Open(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return ErrnoStatus(error.value(), absl::StrCat("create folder ", folder));
  const std::string path = folder + "/lock";
  UniqueFd lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.valid()) return ErrnoStatus(errno, absl::StrCat("open ", path));
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is held by another autoscaler: stop that one, or choose another state folder"));
  }
  std::unique_ptr<CreationJournal> journal(new CreationJournal(folder, std::move(lock)));
  if (const absl::Status status = journal->Read(); !status.ok()) return status;
  return journal;
}

std::string CreationJournal::FileOf(const std::string& key) const {
  return absl::StrCat(folder_, "/", key, kSuffix);
}

absl::Status CreationJournal::Read() {
  std::error_code error;
  for (fs::directory_iterator entry(folder_, error), end; !error && entry != end; entry.increment(error)) {
    const std::string path = entry->path().string();
    if (!absl::EndsWith(path, kSuffix)) continue;
    const absl::StatusOr<std::string> text = ReadWholeFile(path, kMaxFileBytes);
    if (!text.ok()) return text.status();
    absl::StatusOr<Creation> creation = Parse(path, *text);
    if (!creation.ok()) return creation.status();
    const std::string key = creation->key;
    if (FileOf(key) != path)
      return absl::DataLossError(absl::StrCat(path, " is the record of another creation"));
    open_[key] = *std::move(creation);
  }
  return error ? ErrnoStatus(error.value(), absl::StrCat("read folder ", folder_)) : absl::OkStatus();
}

absl::Status CreationJournal::Write(const Creation& creation) {
  const absl::Status status = WriteFileAtomically(FileOf(creation.key), ToJson(creation), 0600);
  if (status.ok()) open_[creation.key] = creation;
  return status;
}

absl::Status CreationJournal::Close(const std::string& key) {
  if (unlink(FileOf(key).c_str()) != 0 && errno != ENOENT)
    return ErrnoStatus(errno, absl::StrCat("delete ", FileOf(key)));
  open_.erase(key);
  return absl::OkStatus();
}

}  // namespace adaptdl::autoscaler
