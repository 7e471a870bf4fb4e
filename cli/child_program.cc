#include "cli/child_program.h"

#include <poll.h>
#include <signal.h>

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "cli/context.h"
#include "libs/base/process/wait.h"

namespace adaptdl::cli {
namespace {

// How soon it is noticed that the program has ended, or is to.
constexpr absl::Duration kChildLook = absl::Milliseconds(200);

}  // namespace

absl::StatusOr<ChildProgram> ChildProgram::Start(SpawnOptions program, absl::string_view purpose) {
  program.search_path = true;
  program.death_signal = SIGTERM;
  program.group = SpawnOptions::Group::kOwn;
  SpawnFailure failure;
  const absl::StatusOr<pid_t> child = Spawn(program, &failure);
  if (failure.stage == SpawnStage::kExecute) {
    return absl::NotFoundError(
        absl::StrCat("there is no program ", program.command.front(), " on this machine, ", purpose));
  }
  if (!child.ok()) return child.status();
  return ChildProgram(*child, OpenPidfd(*child));
}

bool ChildProgram::HasEnded() const {
  pollfd poll_for = {.fd = ended_.get(), .events = POLLIN, .revents = 0};
  return poll(&poll_for, 1, static_cast<int>(absl::ToInt64Milliseconds(kChildLook))) > 0;
}

void ChildProgram::Signal(int signal) const { kill(pid_, signal); }

int ChildProgram::Wait() {
  const std::optional<ProcessEnd> end = WaitForChild(pid_);
  return end ? end->code : kExitError;
}

}  // namespace adaptdl::cli
