// Finds processes of this machine by what can be seen of them from outside.
//
// Plain functions; thread-safe. Processes begin and end while they look.

#ifndef ADAPTDL_LIBS_BASE_PROCESS_PROCESS_LIST_H_
#define ADAPTDL_LIBS_BASE_PROCESS_PROCESS_LIST_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "libs/base/process/process_identity.h"

namespace adaptdl {

// All that can be seen.
std::vector<pid_t> ListProcesses();

// The children of this process, adopted ones and zombies included.
std::vector<pid_t> ListChildren();

// Those whose program is called `program` and whose working folder is `folder` or below, as far as this user
// may know.
std::vector<ProcessIdentity> FindProcesses(absl::string_view program, absl::string_view folder);

// Those that were started with this "NAME=value" in their environment, but for this process, as far as this
// user may know.
std::vector<ProcessIdentity> FindProcessesWith(absl::string_view variable);

}  // namespace adaptdl

#endif  // ADAPTDL_LIBS_BASE_PROCESS_PROCESS_LIST_H_
