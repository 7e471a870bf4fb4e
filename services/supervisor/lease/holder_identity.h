// Who holds a lease: names a process so that another one can tell, later and on the same machine, whether it has ended.
//
// Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_LEASE_HOLDER_IDENTITY_H_
#define ADAPTDL_SERVICES_SUPERVISOR_LEASE_HOLDER_IDENTITY_H_

#include <cstdint>
#include <string>

namespace adaptdl::supervisor {

struct HolderIdentity {
  // Of the machine's present run. Empty: not known.
  std::string boot_id;
  // Process ids mean something in their own namespace only. Empty: not known.
  std::string pid_namespace;
  int64_t pid = 0;
  // In clock ticks since boot. A process id that was used again has another one.
  int64_t start_time = 0;
};

HolderIdentity ThisProcess();

// Whether the process has ended for sure: false if it lives, is stopped, or can't be seen from here.
bool HasEnded(const HolderIdentity& process);

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_LEASE_HOLDER_IDENTITY_H_
