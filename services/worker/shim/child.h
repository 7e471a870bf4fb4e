// The training process of a replica: starting it, and ending it with everything that it started.
//
// For a single-threaded program that is a child subreaper (PR_SET_CHILD_SUBREAPER).

#ifndef ADAPTDL_SERVICES_WORKER_SHIM_CHILD_H_
#define ADAPTDL_SERVICES_WORKER_SHIM_CHILD_H_

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "services/worker/shim/records.h"

namespace adaptdl::worker {

struct StartedChild {
  // Also the id of its session and process group. -1: it could not be started; failure says why.
  pid_t pid = -1;
  // Read ends, non-blocking, owned by the caller. -1 when it could not be started.
  int stdout_fd = -1;
  int stderr_fd = -1;
  // Read end, non-blocking, owned by the caller, of what a process that prepares says (ProcessSpec). -1: it does not.
  int report_fd = -1;
  // Why it could not be started, as a shell would report it, and whose fault that is. Meaningful while pid is
  // -1.
  int exit_code = 0;
  Cause cause = Cause::kUnknown;
  std::string failure;
};

// Starts `spec` in a session of its own, with /dev/null as input and no other open file than that, its
// output and the pipe of one that prepares. The process dies when the caller's does. It can never gain rights (no_new_privs), and leaves no
// core.
StartedChild StartChild(const ProcessSpec& spec);

// Where `program` is, as execvp(3) finds it in the PATH of `env`. Empty: nowhere.
std::string FindProgram(const std::string& program,
                        const std::vector<std::pair<std::string, std::string>>& env);

// SIGKILL for the process group `group` and for every child of this process: orphaned grandchildren are its
// children, whatever group or session they are in. Reaping them makes their own children ours; so repeat it
// until none is left.
void KillAll(pid_t group);

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_SHIM_CHILD_H_
