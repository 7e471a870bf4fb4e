#include "services/worker/replica_accounts.h"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "libs/base/file.h"
#include "libs/base/random_id.h"

namespace adaptdl::worker {
namespace {

constexpr char kClaims[] = ".users";
constexpr char kUserLink[] = "user";
// Of linux/capability.h.
constexpr int kCapChown = 0;
constexpr int kCapSetgid = 6;
constexpr int kCapSetuid = 7;
constexpr char kRemedy[] =
    "; give --replica-user=self to run replicas as the worker's own user, which separates no job from "
    "another, or the "
    "name of an account";

std::optional<std::string> ReadLink(const std::string& path) {
  char text[PATH_MAX];
  const ssize_t size = readlink(path.c_str(), text, sizeof(text));
  if (size < 0) return std::nullopt;
  return std::string(text, size);
}

// The same number on every machine, unlike absl::Hash.
uint64_t Fingerprint(absl::string_view text) {
  uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

absl::StatusOr<Account> FindAccount(const std::string& name) {
  std::vector<char> buffer(1 << 16);
  passwd entry = {};
  passwd* found = nullptr;
  const int error = getpwnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found);
  if (found == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("--replica-user \"", name, "\" is no account of this machine",
                     error != 0 ? absl::StrCat(" (", ErrnoStatus(error, "getpwnam").message(), ")") : "",
                     ": give \"per-job\", \"self\", or an account's name"));
  }
  return Account{found->pw_uid, found->pw_gid, found->pw_name, found->pw_dir};
}

absl::Status Impossible(absl::string_view what) {
  return absl::FailedPreconditionError(
      absl::StrCat("replicas can't run as users of their own: ", what, kRemedy));
}

}  // namespace

absl::Status ParseUidRange(const std::string& text, AccountOptions* options) {
  const std::pair<std::string, std::string> range = absl::StrSplit(text, absl::MaxSplits('-', 1));
  uint32_t first = 0;
  uint32_t last = 0;
  // The largest number stands for "no change" in system calls.
  if (!absl::SimpleAtoi(range.first, &first) || !absl::SimpleAtoi(range.second, &last) || first == 0 ||
      first > last || last == UINT32_MAX) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--replica-uids \"", text, "\" is not valid: give FIRST-LAST, for example 200000-265535"));
  }
  options->first = first;
  options->last = last;
  return absl::OkStatus();
}

bool CanChangeUsers() {
  const absl::StatusOr<std::string> status = ReadWholeFile("/proc/self/status", 1 << 16);
  if (!status.ok()) return geteuid() == 0;
  for (absl::string_view line : absl::StrSplit(*status, '\n')) {
    uint64_t effective = 0;
    if (!absl::ConsumePrefix(&line, "CapEff:") ||
        !absl::SimpleHexAtoi(absl::StripAsciiWhitespace(line), &effective)) {
      continue;
    }
    const auto has = [&](int capability) { return (effective >> capability & 1) != 0; };
    return has(kCapChown) && has(kCapSetgid) && has(kCapSetuid);
  }
  return false;
}

absl::StatusOr<ReplicaAccounts> ReplicaAccounts::Create(const AccountOptions& options,
                                                        const std::string& storage_folder) {
  ReplicaAccounts accounts;
  accounts.options_ = options;
  accounts.storage_ = storage_folder;
  std::string user = options.user;
  if (user.empty()) user = CanChangeUsers() ? "per-job" : "self";
  if (user == "self") return accounts;
  if (user != "per-job") {
    absl::StatusOr<Account> account = FindAccount(user);
    if (!account.ok()) return account.status();
    accounts.named_ = *std::move(account);
    if (accounts.named_.uid == geteuid()) return accounts;
    accounts.kind_ = Kind::kNamed;
  } else {
    accounts.kind_ = Kind::kPerJob;
  }
  if (!CanChangeUsers()) {
    return Impossible("the worker lacks root's rights (the capabilities SETUID, SETGID and CHOWN)");
  }
  if (absl::Status status = accounts.CheckStorage(); !status.ok()) return status;
  return accounts;
}

// Whether replicas will come to their folders, and can own them.
absl::Status ReplicaAccounts::CheckStorage() const {
  std::filesystem::path above;
  for (const std::filesystem::path& part : std::filesystem::path(storage_)) {
    above /= part;
    struct stat info = {};
    if (stat(above.c_str(), &info) != 0) return ErrnoStatus(errno, absl::StrCat("look at ", above.string()));
    if ((info.st_mode & S_IXOTH) != 0) continue;
    return Impossible(
        absl::StrFormat("the way to --storage-dir %s is closed to them at %s, which has mode %04o (\"chmod "
                        "o+x\" opens it)",
                        storage_, above.string(), info.st_mode & 07777));
  }
  const std::string claims = absl::StrCat(storage_, "/", kClaims);
  if (mkdir(claims.c_str(), 0700) != 0 && errno != EEXIST)
    return ErrnoStatus(errno, absl::StrCat("make ", claims));
  const std::string probe = absl::StrCat(claims, "/probe-", RandomHex(8));
  if (mkdir(probe.c_str(), 0700) != 0) return ErrnoStatus(errno, absl::StrCat("make ", probe));
  absl::Status status;
  const uid_t first = kind_ == Kind::kNamed ? named_.uid : options_.first;
  const uid_t last = kind_ == Kind::kNamed ? named_.uid : options_.last;
  for (const uid_t uid : {first, last}) {
    if (status.ok() && lchown(probe.c_str(), uid, uid) != 0) {
      status =
          Impossible(absl::StrCat("a folder in --storage-dir can't be given to user ", uid, " (",
                                  ErrnoStatus(errno, "chown").message(),
                                  "): an NFS server may forbid it, or a container may not have the user"));
    }
  }
  rmdir(probe.c_str());
  return status;
}

std::string ReplicaAccounts::ClaimPath(uid_t uid) const {
  return absl::StrCat(storage_, "/", kClaims, "/", uid);
}

std::string ReplicaAccounts::UserPath(const std::string& job_folder) const {
  return absl::StrCat(storage_, "/", job_folder, "/", kUserLink);
}

std::optional<uid_t> ReplicaAccounts::Known(const std::string& job_folder) const {
  const std::optional<std::string> text = ReadLink(UserPath(job_folder));
  uint32_t uid = 0;
  // Root is never right, whoever wrote that.
  if (!text.has_value() || !absl::SimpleAtoi(*text, &uid) || uid == 0 || uid == UINT32_MAX)
    return std::nullopt;
  return uid;
}

absl::StatusOr<uid_t> ReplicaAccounts::Claim(const std::string& job_folder) const {
  const uint64_t count = uint64_t{options_.last} - options_.first + 1;
  const uint64_t start = Fingerprint(job_folder) % count;
  for (uint64_t i = 0; i < count; ++i) {
    const auto uid = static_cast<uid_t>(options_.first + (start + i) % count);
    const std::string path = ClaimPath(uid);
    if (symlink(job_folder.c_str(), path.c_str()) == 0) return uid;
    if (errno != EEXIST) return ErrnoStatus(errno, absl::StrCat("make ", path));
    if (ReadLink(path) == job_folder) return uid;  // of a worker that was cut off, or is at it now
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("all of --replica-uids ", options_.first, "-", options_.last,
                   " belong to jobs: delete old jobs, or give a larger range"));
}

absl::StatusOr<std::optional<Account>> ReplicaAccounts::Find(const std::string& job_folder) const {
  if (kind_ == Kind::kSelf) return std::optional<Account>();
  if (kind_ == Kind::kNamed) return std::optional<Account>(named_);
  std::optional<uid_t> uid = Known(job_folder);
  if (!uid.has_value()) {
    const absl::StatusOr<uid_t> claimed = Claim(job_folder);
    if (!claimed.ok()) return claimed.status();
    if (symlink(absl::StrCat(*claimed).c_str(), UserPath(job_folder).c_str()) != 0 && errno != EEXIST) {
      return ErrnoStatus(errno, absl::StrCat("make ", UserPath(job_folder)));
    }
    // Another node may have been faster, with another number.
    uid = Known(job_folder);
    if (!uid.has_value()) {
      return absl::DataLossError(absl::StrCat(UserPath(job_folder), " names no user: remove it"));
    }
    if (*uid != *claimed) Release(job_folder, *claimed);
  }
  return std::optional<Account>(Account{*uid, *uid, absl::StrCat("adaptdl-", *uid), ""});
}

void ReplicaAccounts::Release(const std::string& job_folder, uid_t uid) const {
  if (ReadLink(ClaimPath(uid)) == job_folder) unlink(ClaimPath(uid).c_str());
}

}  // namespace adaptdl::worker
