// Members that are processes with a GPU each: what lies on the GPU goes by NCCL, all else by TCP.
//
//   auto communicator = ConnectNccl(**rendezvous, {.rank = 1, .size = 4, .host = "10.0.0.8"}, gpu);
//
// All-reduces and broadcasts of buffers on the GPU run on a stream of the communicator's own, which first waits for
// what is on the buffer's. Work::Then() puts a stream behind the collective and blocks for nothing; Work::Wait()
// returns when the collective is done, and says how it ended. Collectives over main memory are those of ConnectTcp(),
// and numbered apart: only those of the same kind need the same order on all members. A failure of either ends both.
//
// A thread watches the collectives under way, so that deadlines and lost members end them (ncclCommAbort): NCCL's
// kernels would wait for ever. NCCL itself is opened when it is first needed (nccl_library.h, where the environment
// variable ADAPTDL_NCCL_LIBRARY is described).

#ifndef ADAPTDL_LIBS_COMM_NCCL_COMMUNICATOR_H_
#define ADAPTDL_LIBS_COMM_NCCL_COMMUNICATOR_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/comm/communicator.h"
#include "libs/comm/nccl_library.h"
#include "libs/comm/tcp_rendezvous.h"
#include "libs/device/device.h"

namespace adaptdl::comm {

// Blocks until all members are connected. `device` must be a GPU, and outlive the communicator. Codes as those of
// ConnectTcp(); FAILED_PRECONDITION, on all members: one has no NCCL, or another version. A group of one needs none.
absl::StatusOr<std::unique_ptr<Communicator>> ConnectNccl(TcpRendezvous& rendezvous,
                                                          const ConnectOptions& options,
                                                          device::Device& device);

struct NcclSettings {
  // What this member has: an error is told to all.
  absl::StatusOr<NcclLibrary> library;
  // The longest that the ordinary end of a group may take.
  absl::Duration ending = absl::Seconds(10);
};

// The same with another NCCL than the machine's.
absl::StatusOr<std::unique_ptr<Communicator>> ConnectNccl(TcpRendezvous& rendezvous,
                                                          const ConnectOptions& options,
                                                          device::Device& device,
                                                          const NcclSettings& settings);

}  // namespace adaptdl::comm

#endif  // ADAPTDL_LIBS_COMM_NCCL_COMMUNICATOR_H_
