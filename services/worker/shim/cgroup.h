// Control groups (version 2) of replicas: what one replica may take of a machine's memory, processes and
// processors.
//
//   <base>/adaptdl-worker        the worker and the shims
//   <base>/replica-<id>          one replica and all that it starts
//
// where <base> is the group that the worker was started in, or the parent of that if it is called
// adaptdl-worker (systemd: Delegate=yes and DelegateSubgroup=adaptdl-worker). The kernel allows limits below
// a group only when no process is in the group itself.
//
// Functions are thread-safe, but for two calls about one replica.

#ifndef ADAPTDL_SERVICES_WORKER_SHIM_CGROUP_H_
#define ADAPTDL_SERVICES_WORKER_SHIM_CGROUP_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace adaptdl::worker {

struct CgroupLimits {
  // Share of the processors when they are short. 0: that of one core.
  int64_t cpu_millis = 0;
  // Bytes; the kernel ends the whole replica above that. 0: no limit.
  int64_t memory_bytes = 0;
  // Processes and threads. 0: no limit.
  int64_t max_processes = 0;
};

// Takes the groups of this process over: moves it into adaptdl-worker, and removes what replicas of former
// workers left that have ended. Returns <base>. FAILED_PRECONDITION says why this machine offers none.
// `mount` and `self` are other than here in tests only.
absl::StatusOr<std::string> TakeCgroups(const std::string& mount = "/sys/fs/cgroup",
                                        const std::string& self = "/proc/self/cgroup");

// Makes the group of a replica. Returns its folder.
absl::StatusOr<std::string> MakeCgroup(const std::string& base, const std::string& replica_id,
                                       const CgroupLimits& limits);

// How often the kernel has ended a process in the group for want of memory.
int64_t OutOfMemoryKills(const std::string& folder);

// SIGKILL for everything in the group, whatever it calls itself.
void KillCgroup(const std::string& folder);

// Removes the group, if no process is in it.
void RemoveCgroup(const std::string& folder);

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_SHIM_CGROUP_H_
