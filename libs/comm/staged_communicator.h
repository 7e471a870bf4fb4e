// Buffers of a device in a group that exchanges main memory: what is on the GPU goes over the network without NCCL.
//
//   buffer's stream  ── kernels ──●                                    ╭▶ Then(): what follows the collective
//   out                           ╰▶ to main memory ──●                │
//   thread                                            ╰▶ exchange ──╮  │
//   back                                                            ╰▶ to the device ──●
//
// Several may be under way: while one is exchanged the next is copied. The members' collectives stay in the order
// in which they were started, whatever they are of: one over main memory waits for those of the device before it,
// and goes straight to the inner group where there are none.
//
// The memory in between is pinned, and kept for later collectives: as much as was ever under way at once.
//
// Work::Then() blocks until the exchange is done, and not for the copy back. What the device fails at ends the
// group: here with its status, elsewhere as an abort. Abort() does not end the work on the device: what waits for
// that goes on waiting. In a group of one nothing is copied.
//
// Thread-safety: as Communicator.

#ifndef ADAPTDL_LIBS_COMM_STAGED_COMMUNICATOR_H_
#define ADAPTDL_LIBS_COMM_STAGED_COMMUNICATOR_H_

#include <memory>

#include "absl/status/statusor.h"
#include "libs/comm/communicator.h"
#include "libs/device/device.h"

namespace adaptdl::comm {

// Takes buffers on `device`, too (any other: INVALID_ARGUMENT). `inner` exchanges main memory, and is used by
// nobody else from now on; `device` must outlive the communicator and its Works. Fails as the device does.
absl::StatusOr<std::unique_ptr<Communicator>> CreateStagedCommunicator(std::unique_ptr<Communicator> inner,
                                                                       device::Device* device);

}  // namespace adaptdl::comm

#endif  // ADAPTDL_LIBS_COMM_STAGED_COMMUNICATOR_H_
