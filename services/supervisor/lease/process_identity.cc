#include "services/supervisor/lease/process_identity.h"

#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/base/file.h"

namespace adaptdl::supervisor {
namespace {

namespace fs = std::filesystem;

struct Stat {
  char state = '?';
  int64_t start_time = 0;
};

// Of a process or a thread ("/proc/<pid>/stat"); nothing: there is none.
std::optional<Stat> ReadStat(const std::string& path) {
  const absl::StatusOr<std::string> content = ReadWholeFile(path);
  if (!content.ok()) return std::nullopt;
  // The name, in parentheses, may hold anything; the fields after it are separated by spaces: the state is
  // number 3, the start time number 22 (proc(5)).
  const size_t name_end = content->rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  const std::vector<std::string> fields =
      absl::StrSplit(content->substr(name_end + 1), ' ', absl::SkipEmpty());
  Stat stat;
  if (fields.size() < 20 || !absl::SimpleAtoi(fields[19], &stat.start_time)) return std::nullopt;
  stat.state = fields[0][0];
  return stat;
}

bool IsGone(const Stat& stat) { return stat.state == 'Z' || stat.state == 'X' || stat.state == 'x'; }

std::string FirstLine(const std::string& path) {
  return std::string(absl::StripAsciiWhitespace(ReadWholeFile(path).value_or("")));
}

std::string PidNamespace() {
  std::error_code error;
  const fs::path link = fs::read_symlink("/proc/self/ns/pid", error);
  return error ? "" : link.string();
}

}  // namespace

ProcessIdentity ThisProcess() {
  const std::optional<Stat> stat = ReadStat("/proc/self/stat");
  return {FirstLine("/proc/sys/kernel/random/boot_id"), PidNamespace(), getpid(),
          stat.has_value() ? stat->start_time : 0};
}

bool HasEnded(const ProcessIdentity& process) {
  const ProcessIdentity self = ThisProcess();
  const bool visible = !process.boot_id.empty() && process.boot_id == self.boot_id &&
                       !process.pid_namespace.empty() && process.pid_namespace == self.pid_namespace &&
                       self.start_time > 0 && process.start_time > 0;
  if (!visible) return false;
  const std::string folder = absl::StrCat("/proc/", process.pid);
  const std::optional<Stat> stat = ReadStat(folder + "/stat");
  if (!stat.has_value()) {
    std::error_code error;
    return !fs::exists(folder, error) && !error;
  }
  if (stat->start_time != process.start_time) return true;
  if (!IsGone(*stat)) return false;
  // A zombie's other threads may still be on their way out of a write.
  std::error_code error;
  for (fs::directory_iterator thread(folder + "/task", error), end; !error && thread != end;
       thread.increment(error)) {
    const std::optional<Stat> other = ReadStat(thread->path().string() + "/stat");
    if (other.has_value() && !IsGone(*other)) return false;
  }
  return true;
}

}  // namespace adaptdl::supervisor
