// What this machine is and offers. Thread-safe.

#ifndef ADAPTDL_SERVICES_WORKER_MACHINE_H_
#define ADAPTDL_SERVICES_WORKER_MACHINE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace adaptdl::worker {

// Processor time that this process may use, in thousandths of a core: its affinity and the limit of its
// control group.
int64_t MachineCpuMillis();

// Main memory in bytes: the machine's, or the limit of the control group if that is lower.
int64_t MachineMemoryBytes();

// The two limits as the files of a version 2 control group give them. 0: no limit.
int64_t CpuMillisOfCgroup(absl::string_view cpu_max);
int64_t MemoryBytesOfCgroup(absl::string_view memory_max);

// The machine's name in lower case.
std::string MachineName();

// Where others reach a server that listens on `listen_host`: 127.0.0.1 for a loopback address, the address
// itself if it is a particular one, else the address `in_cloud` that its cloud says (empty: none), that the machine's name
// resolves to, or its first one that is no loopback. FAILED_PRECONDITION: it has none.
absl::StatusOr<std::string> FindAdvertiseHost(const std::string& listen_host,
                                              const std::string& in_cloud = "");

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_MACHINE_H_
