#include "libs/base/process/process_list.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "libs/base/file.h"
#include "libs/base/process/proc_stat.h"

namespace adaptdl {
namespace {

namespace fs = std::filesystem;

// Where the link in the process's folder leads. Empty: nobody tells us.
std::string LinkOf(pid_t pid, absl::string_view name) {
  std::error_code error;
  const fs::path target = fs::read_symlink(absl::StrCat("/proc/", pid, "/", name), error);
  return error ? "" : target.string();
}

std::string ProgramOf(pid_t pid) {
  // A program that was built anew since is shown as deleted.
  const std::string path = LinkOf(pid, "exe");
  return fs::path(std::string(absl::StripSuffix(path, " (deleted)"))).filename().string();
}

bool IsBelow(absl::string_view path, absl::string_view folder) {
  return path == folder || absl::StartsWith(path, absl::StrCat(folder, "/"));
}

bool HasVariable(pid_t pid, absl::string_view variable) {
  const absl::StatusOr<std::string> environment = ReadWholeFile(absl::StrCat("/proc/", pid, "/environ"));
  if (!environment.ok()) return false;
  const std::vector<absl::string_view> variables = absl::StrSplit(*environment, '\0');
  return std::find(variables.begin(), variables.end(), variable) != variables.end();
}

template <typename Predicate>
std::vector<ProcessIdentity> Find(Predicate predicate) {
  std::vector<ProcessIdentity> found;
  for (const pid_t pid : ListProcesses()) {
    // Named before it is looked at: another one that is given the pid meanwhile is not taken for it.
    const absl::StatusOr<ProcessIdentity> process = IdentifyProcess(pid);
    if (process.ok() && predicate(pid)) found.push_back(*process);
  }
  return found;
}

}  // namespace

std::vector<pid_t> ListProcesses() {
  std::vector<pid_t> pids;
  std::error_code error;
  for (fs::directory_iterator entry("/proc", error), end; !error && entry != end; entry.increment(error)) {
    pid_t pid = 0;
    if (absl::SimpleAtoi(entry->path().filename().string(), &pid)) pids.push_back(pid);
  }
  return pids;
}

std::vector<pid_t> ListChildren() {
  std::vector<pid_t> children;
  for (const pid_t pid : ListProcesses()) {
    const std::optional<ProcStat> stat = ReadProcStat(pid);
    if (stat.has_value() && stat->parent == getpid()) children.push_back(pid);
  }
  return children;
}

std::vector<ProcessIdentity> FindProcesses(absl::string_view program, absl::string_view folder) {
  return Find([&](pid_t pid) { return ProgramOf(pid) == program && IsBelow(LinkOf(pid, "cwd"), folder); });
}

std::vector<ProcessIdentity> FindProcessesWith(absl::string_view variable) {
  return Find([&](pid_t pid) { return pid != getpid() && HasVariable(pid, variable); });
}

}  // namespace adaptdl
