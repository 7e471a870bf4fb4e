// What a new process does between fork and exec. Inside libs/base/process only.
//
// Other threads may have held any lock at the fork: nothing here allocates, locks or logs.

#ifndef ADAPTDL_LIBS_BASE_PROCESS_CHILD_SETUP_H_
#define ADAPTDL_LIBS_BASE_PROCESS_CHILD_SETUP_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "libs/base/process/spawn.h"

namespace adaptdl {

// All that the child needs, made ready before the fork.
struct ChildPlan {
  explicit ChildPlan(const SpawnOptions& options);

  const SpawnOptions& options;
  const std::string program;
  // Ends of the pipes to the parent: a byte comes from `go` when the child may go on (-1: at once); `report`
  // takes a SpawnFailure, and is closed by a successful exec.
  int go = -1;
  int report = -1;
  const pid_t parent;

  // Of the program's arguments and environment, ended by null.
  const std::vector<char*> argv;
  const std::vector<char*> envp;
  // By signal: whether the program heeds it even if we ignore it.
  std::vector<bool> heeded;
  // File to enter the control group by.
  const std::string control_group_file;
  // Room for `options.files` at other numbers.
  std::vector<int> files;
};

[[noreturn]] void RunChild(ChildPlan* plan);

}  // namespace adaptdl

#endif  // ADAPTDL_LIBS_BASE_PROCESS_CHILD_SETUP_H_
