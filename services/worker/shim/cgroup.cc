#include "services/worker/shim/cgroup.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "libs/base/file.h"

namespace adaptdl::worker {
namespace {

constexpr char kWorkerGroup[] = "adaptdl-worker";
constexpr char kReplicaPrefix[] = "replica-";

// These files take a write as a command: nothing is created, truncated or synced.
absl::Status Tell(const std::string& path, absl::string_view text) {
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, absl::StrCat("open ", path));
  const ssize_t written = write(fd, text.data(), text.size());
  const int error = errno;
  close(fd);
  if (written == static_cast<ssize_t>(text.size())) return absl::OkStatus();
  return ErrnoStatus(written < 0 ? error : EIO, absl::StrCat("write \"", text, "\" to ", path));
}

absl::Status MakeFolder(const std::string& path) {
  if (mkdir(path.c_str(), 0755) == 0 || errno == EEXIST) return absl::OkStatus();
  return ErrnoStatus(errno, absl::StrCat("make control group ", path));
}

// The path of the group in the one hierarchy of version 2; empty if there is none.
std::string PathOfSelf(const std::string& self) {
  const absl::StatusOr<std::string> text = ReadWholeFile(self, 1 << 16);
  if (!text.ok()) return "";
  for (const absl::string_view line : absl::StrSplit(*text, '\n')) {
    if (absl::StartsWith(line, "0::")) return std::string(line.substr(3));
  }
  return "";
}

void RemoveEndedReplicas(const std::string& base) {
  std::error_code error;
  std::vector<std::string> groups;
  for (std::filesystem::directory_iterator entry(base, error), end; !error && entry != end;
       entry.increment(error)) {
    if (absl::StartsWith(entry->path().filename().string(), kReplicaPrefix)) groups.push_back(entry->path());
  }
  for (const std::string& group : groups) RemoveCgroup(group);
}

}  // namespace

absl::StatusOr<std::string> TakeCgroups(const std::string& mount, const std::string& self) {
  const std::string path = PathOfSelf(self);
  const absl::StatusOr<std::string> controllers =
      ReadWholeFile(absl::StrCat(mount, path, "/cgroup.controllers"), 4096);
  if (path.empty() || !controllers.ok()) {
    return absl::FailedPreconditionError("the machine has no control groups of version 2 here");
  }
  const std::vector<std::string> offered = absl::StrSplit(*controllers, absl::ByAnyChar(" \n"));
  for (const char* wanted : {"cpu", "memory", "pids"}) {
    if (std::find(offered.begin(), offered.end(), wanted) != offered.end()) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("its control group ", path, " does not offer the controller ", wanted));
  }
  std::filesystem::path group = absl::StrCat(mount, path);
  if (group.filename().empty()) group = group.parent_path();
  const bool placed = group.filename() == kWorkerGroup;
  const std::string base = placed ? group.parent_path().string() : group.string();
  const std::string leaf = absl::StrCat(base, "/", kWorkerGroup);
  absl::Status status = MakeFolder(leaf);
  if (status.ok() && !placed) status = Tell(absl::StrCat(leaf, "/cgroup.procs"), "0");
  if (status.ok()) {
    status = Tell(absl::StrCat(base, "/cgroup.subtree_control"), "+cpu +memory +pids");
    if (!status.ok() && !placed) Tell(absl::StrCat(base, "/cgroup.procs"), "0").IgnoreError();
  }
  if (!status.ok()) {
    if (!placed) RemoveCgroup(leaf);
    return absl::FailedPreconditionError(
        absl::StrCat("its control group is not its own to divide: ", status.message()));
  }
  RemoveEndedReplicas(base);
  return base;
}

absl::StatusOr<std::string> MakeCgroup(const std::string& base, const std::string& replica_id,
                                       const CgroupLimits& limits) {
  const std::string folder = absl::StrCat(base, "/", kReplicaPrefix, replica_id);
  absl::Status status = MakeFolder(folder);
  const auto set = [&](absl::string_view file, absl::string_view value) {
    if (status.ok()) status = Tell(absl::StrCat(folder, "/", file), value);
  };
  // 100 is what every group has by default; here it is the share of one core.
  const int64_t cpu_millis = limits.cpu_millis > 0 ? limits.cpu_millis : 1000;
  set("cpu.weight", absl::StrCat(std::clamp<int64_t>(cpu_millis / 10, 1, 10'000)));
  set("memory.oom.group", "1");
  if (limits.memory_bytes > 0) set("memory.max", absl::StrCat(limits.memory_bytes));
  if (limits.max_processes > 0) set("pids.max", absl::StrCat(limits.max_processes));
  if (status.ok()) return folder;
  RemoveCgroup(folder);
  return status;
}

int64_t OutOfMemoryKills(const std::string& folder) {
  const absl::StatusOr<std::string> events = ReadWholeFile(absl::StrCat(folder, "/memory.events"), 4096);
  if (!events.ok()) return 0;
  for (const absl::string_view line : absl::StrSplit(*events, '\n')) {
    const std::pair<absl::string_view, absl::string_view> entry =
        absl::StrSplit(line, absl::MaxSplits(' ', 1));
    int64_t count = 0;
    if (entry.first == "oom_kill" && absl::SimpleAtoi(entry.second, &count)) return count;
  }
  return 0;
}

void KillCgroup(const std::string& folder) { Tell(absl::StrCat(folder, "/cgroup.kill"), "1").IgnoreError(); }

void RemoveCgroup(const std::string& folder) { rmdir(folder.c_str()); }

}  // namespace adaptdl::worker
