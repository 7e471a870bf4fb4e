#include "libs/base/process/spawn.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/base/file.h"
#include "libs/base/process/child_setup.h"
#include "libs/base/process/pipe.h"
#include "libs/base/process/wait.h"
#include "libs/base/unique_fd.h"

namespace adaptdl {
namespace {

// A handler of ours that ran in the child would act for us. None does: the child is born with all signals
// blocked, and takes the handlers away before it lets any through.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

// Between parent and child.
struct Pipes {
  Pipe report;
  // Unused where nobody has to be asked. We keep both ends: writing to a child that was killed is no error.
  Pipe go;
};

absl::StatusOr<Pipes> OpenPipes(bool with_go) {
  Pipes pipes;
  absl::StatusOr<Pipe> report = Pipe::Open();
  if (!report.ok()) return report.status();
  pipes.report = *std::move(report);
  if (!with_go) return pipes;
  absl::StatusOr<Pipe> go = Pipe::Open();
  if (!go.ok()) return go.status();
  pipes.go = *std::move(go);
  return pipes;
}

pid_t Fork(ChildPlan* plan, Pipes* pipes) {
  const SignalsBlocked blocked;
  const pid_t pid = fork();
  if (pid == 0) {
    pipes->go.write_end.Reset();  // or the child would wait for itself
    RunChild(plan);
  }
  return pid;
}

// Lets the child begin, and waits until it has. `*failure`: why it has not.
absl::Status LetBegin(const SpawnOptions& options, pid_t pid, Pipes* pipes, SpawnFailure* failure) {
  if (options.before_start != nullptr) {
    if (absl::Status status = options.before_start(pid); !status.ok()) return status;
    const char byte = 'g';
    if (write(pipes->go.write_end.get(), &byte, 1) != 1) *failure = {SpawnStage::kProcess, errno};
  }
  // Nothing comes when exec has succeeded: that closes the child's end.
  SpawnFailure reported;
  if (failure->stage == SpawnStage::kNone &&
      ReadSome(pipes->report.read_end.get(), &reported, sizeof(reported)) == sizeof(reported)) {
    *failure = reported;
  }
  if (failure->stage == SpawnStage::kNone) return absl::OkStatus();
  const std::string what = failure->stage == SpawnStage::kWorkingDirectory
                               ? absl::StrCat("cannot enter ", options.working_directory, " for ")
                               : "cannot start ";
  return ErrnoStatus(failure->error_number, absl::StrCat(what, options.command[0]));
}

}  // namespace

std::vector<int> AllSignals() {
  std::vector<int> signals;
  for (int signal = 1; signal < NSIG; ++signal) signals.push_back(signal);
  return signals;
}

absl::StatusOr<pid_t> Spawn(const SpawnOptions& options, SpawnFailure* failure) {
  SpawnFailure unseen;
  if (failure == nullptr) failure = &unseen;
  *failure = {};
  ChildPlan plan(options);
  absl::StatusOr<Pipes> pipes = OpenPipes(/*with_go=*/options.before_start != nullptr);
  if (!pipes.ok()) {
    *failure = {SpawnStage::kProcess, errno};
    return pipes.status();
  }
  plan.go = pipes->go.read_end.get();
  plan.report = pipes->report.write_end.get();
  const pid_t pid = Fork(&plan, &*pipes);
  if (pid < 0) {
    *failure = {SpawnStage::kProcess, errno};
    return ErrnoStatus(failure->error_number, absl::StrCat("cannot fork for ", options.command[0]));
  }
  // Here too, so that it is so before anybody signals the group.
  if (options.group == SpawnOptions::Group::kOwn) setpgid(pid, pid);
  pipes->report.write_end.Reset();
  const absl::Status status = LetBegin(options, pid, &*pipes, failure);
  if (status.ok()) return pid;
  pipes->go.write_end.Reset();  // a child that still waits ends
  WaitForChild(pid);
  return status;
}

}  // namespace adaptdl
