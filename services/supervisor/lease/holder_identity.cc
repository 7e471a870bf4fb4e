#include "services/supervisor/lease/holder_identity.h"

#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "libs/base/file.h"
#include "libs/base/process/proc_stat.h"

namespace adaptdl::supervisor {
namespace {

namespace fs = std::filesystem;

// Of a process or a thread ("/proc/<pid>/stat"); nothing: there is none.
std::optional<ProcStat> ReadStat(const std::string& path) {
  const absl::StatusOr<std::string> content = ReadWholeFile(path);
  return content.ok() ? ParseProcStat(*content) : std::nullopt;
}

std::string FirstLine(const std::string& path) {
  return std::string(absl::StripAsciiWhitespace(ReadWholeFile(path).value_or("")));
}

std::string PidNamespace() {
  std::error_code error;
  const fs::path link = fs::read_symlink("/proc/self/ns/pid", error);
  return error ? "" : link.string();
}

}  // namespace

HolderIdentity ThisProcess() {
  const std::optional<ProcStat> stat = ReadOwnProcStat();
  return {FirstLine("/proc/sys/kernel/random/boot_id"), PidNamespace(), getpid(),
          stat.has_value() ? static_cast<int64_t>(stat->start_time) : 0};
}

bool HasEnded(const HolderIdentity& process) {
  const HolderIdentity self = ThisProcess();
  const bool visible = !process.boot_id.empty() && process.boot_id == self.boot_id &&
                       !process.pid_namespace.empty() && process.pid_namespace == self.pid_namespace &&
                       self.start_time > 0 && process.start_time > 0;
  if (!visible) return false;
  const std::string folder = absl::StrCat("/proc/", process.pid);
  const std::optional<ProcStat> stat = ReadStat(folder + "/stat");
  if (!stat.has_value()) {
    std::error_code error;
    return !fs::exists(folder, error) && !error;
  }
  if (static_cast<int64_t>(stat->start_time) != process.start_time) return true;
  if (!stat->ended()) return false;
  // A zombie's other threads may still be on their way out of a write.
  std::error_code error;
  for (fs::directory_iterator thread(folder + "/task", error), end; !error && thread != end;
       thread.increment(error)) {
    const std::optional<ProcStat> other = ReadStat(thread->path().string() + "/stat");
    if (other.has_value() && !other->ended()) return false;
  }
  return true;
}

}  // namespace adaptdl::supervisor
