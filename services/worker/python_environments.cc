#include "services/worker/python_environments.h"

#include <fcntl.h>
#include <openssl/sha.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/base/file.h"
#include "libs/base/random_id.h"
#include "libs/jobspec/python.h"
#include "libs/service/log.h"
#include "services/worker/environment/environment.h"
#include "services/worker/shim/records.h"

namespace adaptdl::worker {
namespace {

namespace fs = std::filesystem;

constexpr size_t kDigestBytes = 16;
// What is on its way in or out lies beside the rest, under these names; no namespace begins like that.
constexpr char kComing[] = ".new-";
constexpr char kGone[] = ".gone-";
// Of the environments of jobs that have users of their own: all of the namespace's group may add one, and only its
// maker takes it away; what is in it belongs to the group.
constexpr mode_t kSharedMode = 03770;
constexpr mode_t kOwnMode = 0700;

// One string of several, none of which can end within another.
void AddPart(absl::string_view part, std::string* text) {
  absl::StrAppend(text, part.size(), ":", part, ";");
}

// Who a folder belongs to, and who may do what in it.
struct Owner {
  uid_t uid;
  gid_t gid;
  mode_t mode;
};

Owner OwnerFor(const PythonUser& user) {
  if (user.group.has_value()) return {geteuid(), *user.group, kSharedMode};
  if (user.account.has_value()) return {user.account->uid, user.account->gid, kOwnMode};
  return {geteuid(), getegid(), kOwnMode};
}

absl::Status Give(const std::string& path, const Owner& owner) {
  // The mode last: a change of the owner takes bits away.
  if (lchown(path.c_str(), owner.uid, owner.gid) == 0 && chmod(path.c_str(), owner.mode) == 0) {
    return absl::OkStatus();
  }
  return ErrnoStatus(errno, absl::StrCat("give ", path, " to user ", owner.uid));
}

// A folder of ours above the environments, open to be gone through by these.
absl::Status MakeOuter(const std::string& path, gid_t group, mode_t mode) {
  struct stat info = {};
  if (mkdir(path.c_str(), 0700) != 0 &&
      (errno != EEXIST || lstat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode))) {
    return ErrnoStatus(errno, absl::StrCat("make the folder ", path));
  }
  return Give(path, {geteuid(), group, mode});
}

bool IsAsGiven(const std::string& path, const Owner& owner) {
  struct stat info = {};
  return lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == owner.uid &&
         info.st_gid == owner.gid && (info.st_mode & 07777) == owner.mode;
}

void StampNow(const std::string& path) {
  if (utimensat(AT_FDCWD, path.c_str(), nullptr, AT_SYMLINK_NOFOLLOW) != 0) {
    log::Warning("the time of use of a Python environment can't be noted", {{"folder", path}});
  }
}

std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  return names;
}

}  // namespace

std::string PythonEnvironments::NameOf(const std::string& job_namespace,
                                       const v1::ReplicaTemplate& replica) const {
  std::string text;
  AddPart(replica.python().requirements(), &text);
  AddPart(replica.python().interpreter(), &text);
  AddPart(options_.library, &text);
  for (const v1::EnvironmentVariable& variable : replica.env()) {
    // Where packages come from, say.
    if (!absl::StartsWith(variable.name(), "PIP_")) continue;
    AddPart(variable.name(), &text);
    AddPart(variable.value(), &text);
  }
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
  const absl::string_view bytes(reinterpret_cast<const char*>(digest), kDigestBytes);
  return absl::StrCat(job_namespace, "/", absl::BytesToHexString(bytes));
}

absl::StatusOr<std::vector<std::string>> PythonEnvironments::Prepare(const std::string& job_namespace,
                                                                     const v1::ReplicaTemplate& replica,
                                                                     const PythonUser& user) {
  const std::string name = NameOf(job_namespace, replica);
  const std::string& requirements = replica.python().requirements();
  {
    MutexLock lock(&mutex_);
    if (absl::Status status = MakeFolder(name, requirements, user); !status.ok()) return status;
  }
  const std::string& interpreter = replica.python().interpreter();
  return std::vector<std::string>{options_.program,
                                  "--folder",
                                  absl::StrCat(options_.folder, "/", name),
                                  "--interpreter",
                                  interpreter.empty() ? "python3" : interpreter,
                                  "--install",
                                  jobspec::HasRequirements(requirements) ? "1" : "0",
                                  "--library",
                                  options_.library,
                                  "--timeout",
                                  absl::FormatDuration(options_.timeout),
                                  "--max-bytes",
                                  absl::StrCat(options_.max_environment_bytes),
                                  "--report-fd",
                                  absl::StrCat(kReportFd),
                                  "--"};
}

absl::Status PythonEnvironments::MakeFolder(const std::string& name, const std::string& requirements,
                                            const PythonUser& user) {
  const Owner owner = OwnerFor(user);
  const std::string path = absl::StrCat(options_.folder, "/", name);
  const std::string job_namespace = fs::path(path).parent_path().string();
  const bool own = !user.account.has_value();
  std::error_code error;
  fs::create_directories(options_.folder, error);
  if (error) return ErrnoStatus(error.value(), absl::StrCat("make the folder ", options_.folder));
  absl::Status status = MakeOuter(options_.folder, getegid(), own ? 0700 : 0711);
  const mode_t others = user.group.has_value() ? 0710 : 0711;
  status.Update(MakeOuter(job_namespace, user.group.value_or(getegid()), own ? 0700 : others));
  if (!status.ok()) return status;
  if (IsAsGiven(path, owner)) {
    StampNow(path);
    return absl::OkStatus();
  }
  // Of a worker that gave jobs other users.
  const std::string gone = absl::StrCat(options_.folder, "/", kGone, RandomHex(8));
  if (rename(path.c_str(), gone.c_str()) != 0 && errno != ENOENT) {
    return ErrnoStatus(errno, absl::StrCat("move ", path, " away"));
  }
  // Nobody but us can reach it until it is complete.
  const std::string coming = absl::StrCat(options_.folder, "/", kComing, RandomHex(8));
  if (mkdir(coming.c_str(), 0700) != 0) return ErrnoStatus(errno, absl::StrCat("make ", coming));
  const Owner reader{owner.uid, owner.gid, 0640};
  for (const auto& [file, text] :
       {std::pair<std::string, std::string>{kRequirementsFile, requirements}, {kEnvironmentLock, ""}}) {
    const std::string file_path = absl::StrCat(coming, "/", file);
    status.Update(WriteFileAtomically(file_path, text, 0600));
    if (status.ok()) status.Update(Give(file_path, reader));
  }
  if (status.ok()) status.Update(Give(coming, owner));
  if (status.ok() && rename(coming.c_str(), path.c_str()) != 0) {
    status = ErrnoStatus(errno, absl::StrCat("make ", path));
  }
  if (!status.ok()) fs::remove_all(coming, error);
  return status;
}

std::vector<std::string> PythonEnvironments::LeftOver() {
  std::vector<std::string> paths;
  MutexLock lock(&mutex_);
  for (const std::string& name : NamesIn(options_.folder)) {
    const std::string path = absl::StrCat(options_.folder, "/", name);
    if (absl::StartsWith(name, kGone)) paths.push_back(path);
    if (!absl::StartsWith(name, kComing)) continue;
    // Nobody is at it while the lock is held: its worker was cut off.
    paths.push_back(absl::StrCat(options_.folder, "/", kGone, RandomHex(8)));
    if (rename(path.c_str(), paths.back().c_str()) != 0) paths.pop_back();
  }
  return paths;
}

std::vector<PythonEnvironments::Kept> PythonEnvironments::List() const {
  std::vector<Kept> kept;
  for (const std::string& job_namespace : NamesIn(options_.folder)) {
    if (absl::StartsWith(job_namespace, ".")) continue;
    for (const std::string& digest : NamesIn(absl::StrCat(options_.folder, "/", job_namespace))) {
      const std::string name = absl::StrCat(job_namespace, "/", digest);
      struct stat info = {};
      if (lstat(absl::StrCat(options_.folder, "/", name).c_str(), &info) != 0) continue;
      kept.push_back({.name = name, .asked = absl::TimeFromTimespec(info.st_mtim)});
    }
  }
  std::sort(kept.begin(), kept.end(), [](const Kept& a, const Kept& b) { return a.asked < b.asked; });
  return kept;
}

int64_t PythonEnvironments::Measure(const std::string& name, std::vector<std::string>* half_made) {
  const std::string folder = absl::StrCat(options_.folder, "/", name);
  std::set<std::string> whole;
  std::vector<std::string> made;
  for (const std::string& entry : NamesIn(folder)) {
    if (absl::StartsWith(entry, kEnvironmentPrefix)) made.push_back(entry);
    std::error_code error;
    const fs::path target = fs::read_symlink(absl::StrCat(folder, "/", entry), error);
    if (!error) whole.insert(target.string());
  }
  int64_t bytes = 0;
  for (const std::string& entry : made) {
    const std::string path = absl::StrCat(folder, "/", entry);
    if (!whole.contains(entry)) {
      half_made->push_back(path);
      continue;
    }
    const auto [size, is_new] = sizes_.try_emplace(path, 0);
    if (is_new) size->second = BytesBeneath(path);
    bytes += size->second;
  }
  return bytes;
}

bool PythonEnvironments::Remove(const std::string& path, const std::string& name,
                                const std::function<std::set<std::string>()>& in_use) {
  const std::string gone = absl::StrCat(options_.folder, "/", kGone, RandomHex(8));
  {
    MutexLock lock(&mutex_);
    if (in_use().contains(name)) return false;
    if (rename(path.c_str(), gone.c_str()) != 0) return true;
  }
  log::Info("a Python environment goes", {{"folder", path}});
  std::error_code error;
  fs::remove_all(gone, error);
  std::erase_if(sizes_, [&](const auto& size) { return absl::StartsWith(size.first, path); });
  return true;
}

int64_t PythonEnvironments::Trim(const std::function<std::set<std::string>()>& in_use) {
  std::error_code error;
  for (const std::string& path : LeftOver()) fs::remove_all(path, error);
  const std::set<std::string> used = in_use();
  std::vector<Kept> unused = List();
  std::erase_if(unused, [&](const Kept& kept) { return used.contains(kept.name); });
  int64_t total = 0;
  for (Kept& kept : unused) {
    std::vector<std::string> half_made;
    kept.bytes = Measure(kept.name, &half_made);
    total += kept.bytes;
    for (const std::string& path : half_made) Remove(path, kept.name, in_use);
  }
  for (const Kept& kept : unused) {
    // Nothing is kept of what could not be made.
    if (kept.bytes > 0 && total <= options_.max_unused_bytes) continue;
    if (Remove(absl::StrCat(options_.folder, "/", kept.name), kept.name, in_use)) total -= kept.bytes;
  }
  return total;
}

}  // namespace adaptdl::worker
