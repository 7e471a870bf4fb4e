#include "libs/base/process/process_identity.h"

#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/base/file.h"
#include "libs/base/process/proc_stat.h"
#include "libs/base/process/wait.h"
#include "libs/base/unique_fd.h"

namespace adaptdl {

std::string FormatIdentity(const ProcessIdentity& identity) {
  return absl::StrCat(identity.pid, " ", identity.start_time, "\n");
}

absl::StatusOr<ProcessIdentity> ParseIdentity(absl::string_view text) {
  const std::vector<absl::string_view> words =
      absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  ProcessIdentity identity;
  if (words.size() != 2 || !absl::SimpleAtoi(words[0], &identity.pid) || identity.pid <= 0 ||
      !absl::SimpleAtoi(words[1], &identity.start_time)) {
    return absl::DataLossError(absl::StrCat("\"", text.substr(0, 100), "\" is no \"<pid> <start time>\""));
  }
  return identity;
}

absl::StatusOr<ProcessIdentity> IdentifyProcess(pid_t pid) {
  const std::optional<ProcStat> stat = ReadProcStat(pid);
  if (!stat.has_value()) return absl::NotFoundError(absl::StrCat("no process ", pid));
  if (stat->ended()) return absl::NotFoundError(absl::StrCat("process ", pid, " has ended"));
  return ProcessIdentity{pid, stat->start_time};
}

bool IsAlive(const ProcessIdentity& identity) {
  const std::optional<ProcStat> stat = ReadProcStat(identity.pid);
  if (!stat.has_value() || stat->start_time != identity.start_time) return false;
  if (!stat->ended()) return true;
  // Fails for whom we did not start ourselves; their parent reaps them.
  waitpid(identity.pid, nullptr, WNOHANG);
  return false;
}

absl::Status SignalProcess(const ProcessIdentity& identity, int signal) {
  // Opened before it is looked at: whoever is given the pid in between does not get the signal.
  const UniqueFd process = OpenPidfd(identity.pid);
  if (!IsAlive(identity)) return absl::NotFoundError(absl::StrCat("process ", identity.pid, " has ended"));
  const long result = process.valid() ? syscall(SYS_pidfd_send_signal, process.get(), signal, nullptr, 0)
                                      : kill(identity.pid, signal);
  if (result == 0) return absl::OkStatus();
  return ErrnoStatus(errno, absl::StrCat("signal process ", identity.pid));
}

}  // namespace adaptdl
