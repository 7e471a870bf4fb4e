#include "cli/cloud/profile.h"

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "libs/base/file.h"
#include "libs/jobspec/checks.h"
#include "nlohmann/json.hpp"

namespace adaptdl::cli {
namespace {

constexpr int kPrivate = 0600;
constexpr int64_t kMaxFileBytes = 1 << 20;

std::string Home() {
  const char* config = std::getenv("XDG_CONFIG_HOME");
  if (config != nullptr && *config != '\0') return config;
  const char* home = std::getenv("HOME");
  return absl::StrCat(home != nullptr && *home != '\0' ? home : ".", "/.config");
}

absl::Status MakeFolder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error) std::filesystem::permissions(folder, std::filesystem::perms::owner_all, error);
  return error ? ErrnoStatus(error.value(), absl::StrCat("make folder ", folder)) : absl::OkStatus();
}

absl::Status Write(const std::string& name, const std::string& file, const std::string& text) {
  const absl::StatusOr<std::string> folder = ProfileFolder(name);
  if (!folder.ok()) return folder.status();
  if (absl::Status status = MakeFolder(*folder); !status.ok()) return status;
  return WriteFileAtomically(absl::StrCat(*folder, "/", file), text, kPrivate);
}

absl::StatusOr<std::string> Read(const std::string& name, const std::string& file) {
  const absl::StatusOr<std::string> folder = ProfileFolder(name);
  if (!folder.ok()) return folder.status();
  return ReadWholeFile(absl::StrCat(*folder, "/", file), kMaxFileBytes);
}

}  // namespace

absl::StatusOr<std::string> ProfileFolder(const std::string& name) {
  if (!jobspec::IsDnsLabel(name))
    return absl::InvalidArgumentError(absl::StrCat("\"", name, "\" is no name of a cluster"));
  return absl::StrCat(Home(), "/adaptdl/clusters/", name);
}

absl::StatusOr<Profile> ReadProfile(const std::string& name) {
  const absl::StatusOr<std::string> folder = ProfileFolder(name);
  if (!folder.ok()) return folder.status();
  const absl::StatusOr<std::string> text = Read(name, "profile.json");
  if (absl::IsNotFound(text.status())) {
    return absl::NotFoundError(absl::StrCat("cluster ", name, ": there is no profile in ", *folder,
                                            "; \"adaptdl cloud up FILE\" makes it"));
  }
  if (!text.ok()) return text.status();
  const nlohmann::json json = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  const auto field = [&](const char* key) {
    const bool there = json.is_object() && json.contains(key) && json[key].is_string();
    return there ? json[key].get<std::string>() : std::string();
  };
  Profile profile{.name = name,
                  .head = field("head"),
                  .supervisor = field("supervisor"),
                  .ca_file = absl::StrCat(*folder, "/ca.pem"),
                  .token_file = absl::StrCat(*folder, "/token")};
  if (!profile.head.empty() && !profile.supervisor.empty()) return profile;
  return absl::DataLossError(
      absl::StrCat(*folder, "/profile.json can't be read: remove it, and run \"adaptdl cloud up\" again"));
}

absl::StatusOr<Profile> WriteProfile(const std::string& name, const std::string& head,
                                     const std::string& supervisor, const Announcement& announcement) {
  const nlohmann::ordered_json json = {{"head", head}, {"supervisor", supervisor}};
  absl::Status status = Write(name, "ca.pem", announcement.authority);
  if (status.ok()) status = Write(name, "token", announcement.token + "\n");
  // Last: who finds it finds the others.
  if (status.ok()) status = Write(name, "profile.json", json.dump(2) + "\n");
  if (!status.ok()) return status;
  return ReadProfile(name);
}

absl::StatusOr<RecipientKey> LaunchKey(const std::string& name, absl::Time now) {
  absl::StatusOr<std::string> key = Read(name, "key.pem");
  const absl::StatusOr<std::string> certificate = Read(name, "recipient.pem");
  if (key.ok() && certificate.ok()) return RecipientKey{.key = *std::move(key), .certificate = *certificate};
  for (const absl::Status& status : {key.status(), certificate.status()}) {
    if (!status.ok() && !absl::IsNotFound(status)) return status;
  }
  absl::StatusOr<RecipientKey> made = MakeRecipientKey(now);
  if (!made.ok()) return made;
  absl::Status status = Write(name, "recipient.pem", made->certificate);
  if (status.ok()) status = Write(name, "key.pem", made->key);
  if (!status.ok()) return status;
  return made;
}

absl::Status KeepClusterText(const std::string& name, const std::string& text) {
  return Write(name, "cluster.yaml", text);
}

absl::StatusOr<std::string> KeptClusterText(const std::string& name) { return Read(name, "cluster.yaml"); }

absl::Status RemoveProfile(const std::string& name) {
  const absl::StatusOr<std::string> folder = ProfileFolder(name);
  if (!folder.ok()) return folder.status();
  std::error_code error;
  std::filesystem::remove_all(*folder, error);
  return error ? ErrnoStatus(error.value(), absl::StrCat("remove ", *folder)) : absl::OkStatus();
}

}  // namespace adaptdl::cli
