// Starts programs. What a program gets of us is what is asked for here: it has nothing to read (/dev/null),
// no signal blocked and no handler of ours, and no descriptor but those that are named.
//
//   UniqueFd log = ...;
//   SpawnOptions options;
//   options.command = {"/bin/echo", "hello"};
//   options.output_fd = log.get();
//   const absl::StatusOr<pid_t> child = Spawn(options);
//
// Whoever starts a program reaps it (wait.h), or leaves that to a ChildReaper (child_reaper.h).
//
// Thread-safe, and for programs with many threads: what runs between fork and exec neither allocates nor
// locks.

#ifndef ADAPTDL_LIBS_BASE_PROCESS_SPAWN_H_
#define ADAPTDL_LIBS_BASE_PROCESS_SPAWN_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace adaptdl {

// The account that a program runs under, with files of its own (umask 0077).
struct SpawnAccount {
  uid_t uid = 0;
  gid_t gid = 0;
  // Supplementary groups: these, and no other ones.
  std::vector<gid_t> groups = {};
  // Most processes and threads of the account. 0: no bound.
  int64_t max_processes = 0;
};

struct SpawnOptions {
  // Program and arguments. At least the program: a path, unless `search_path` is set.
  std::vector<std::string> command;
  // Path of the program, where it is not the command's first word. Empty: it is.
  std::string program = {};
  // Whether the program is looked for in our PATH, as execvp(3) does.
  bool search_path = false;
  // "NAME=value", complete. Nothing: ours.
  std::optional<std::vector<std::string>> environment = std::nullopt;
  // Entered with the rights of the program. Empty: ours.
  std::string working_directory = {};

  // Its standard output and error. -1: ours. All descriptors stay the caller's.
  int output_fd = -1;
  int error_fd = -1;
  // Further descriptors that it gets: the first as number 3, the next as 4, and so on.
  std::vector<int> files = {};

  // The process group it is in, which terminals and kill(-pid) signal as a whole.
  enum class Group {
    kOurs,
    kOwn,      // a process group of its own
    kSession,  // a session of its own, which implies a group
  };
  Group group = Group::kOurs;
  // Signals that we may ignore and the program is not to.
  std::vector<int> heeded_signals = {};
  // The signal it gets when the thread that started it ends. 0: none.
  int death_signal = 0;

  // Folder of the control group (version 2) that it runs in. Empty: ours.
  std::string control_group = {};
  // Nothing: ours.
  std::optional<SpawnAccount> account = std::nullopt;
  // Whether it can never gain rights (no_new_privs), and leaves no core.
  bool confined = false;

  // Called when the process is there and before the program begins. Only if this returns OK does it begin;
  // if we die on the way it never does. So there is no running program that was not remembered.
  std::function<absl::Status(pid_t)> before_start = nullptr;
};

// All signals there are, for `heeded_signals`.
std::vector<int> AllSignals();

// What did not work.
enum class SpawnStage : int {
  kNone,
  kProcess,  // there is none to be had
  kSetUp,    // descriptors, session, death signal
  kControlGroup,
  kAccount,
  kWorkingDirectory,
  kExecute,
};

struct SpawnFailure {
  SpawnStage stage = SpawnStage::kNone;
  int error_number = 0;
};

// Returns when the program has begun. If it can't: the canonical code of the errno, with the program in the
// text; `failure`, unless null, says more. Or what `before_start` returned; then there is no failure.
absl::StatusOr<pid_t> Spawn(const SpawnOptions& options, SpawnFailure* failure = nullptr);

}  // namespace adaptdl

#endif  // ADAPTDL_LIBS_BASE_PROCESS_SPAWN_H_
