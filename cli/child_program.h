// A program of this machine that a command runs for its user, until it ends or the command is interrupted.
//
// For one thread.

#ifndef ADAPTDL_CLI_CHILD_PROGRAM_H_
#define ADAPTDL_CLI_CHILD_PROGRAM_H_

#include <sys/types.h>

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/base/process/spawn.h"
#include "libs/base/unique_fd.h"

namespace adaptdl::cli {

class ChildProgram {
 public:
  // `program.command` is looked up in PATH. Signals of the terminal don't reach it: the command passes them on. It ends with
  // the command. NOT_FOUND: there is no such program; says what it is for and how to get it, which is `purpose`.
  static absl::StatusOr<ChildProgram> Start(SpawnOptions program, absl::string_view purpose);

  // Waits for a moment. Whether it has ended.
  bool HasEnded() const;
  void Signal(int signal) const;
  // Waits for its end, once. Its exit code, as shells have it.
  int Wait();

 private:
  ChildProgram(pid_t pid, UniqueFd ended) : pid_(pid), ended_(std::move(ended)) {}

  pid_t pid_;
  UniqueFd ended_;
};

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_CHILD_PROGRAM_H_
