// Members that are processes with a GPU each: NCCL. Compiled only where LibTorch has it (ADAPTDL_WITH_NCCL).
//
// Takes buffers on the member's GPU and, by way of it, buffers in main memory.

#ifndef ADAPTDL_LIBS_COMM_NCCL_COMMUNICATOR_H_
#define ADAPTDL_LIBS_COMM_NCCL_COMMUNICATOR_H_

#include <memory>

#include "absl/status/statusor.h"
#include "libs/comm/communicator.h"
#include "libs/comm/gloo_communicator.h"

namespace adaptdl::comm {

// As ConnectGloo(); `cuda_device` is the GPU of this member.
absl::StatusOr<std::unique_ptr<Communicator>> ConnectNccl(const TcpRendezvous& rendezvous,
                                                          const ConnectOptions& options, int cuda_device);

}  // namespace adaptdl::comm

#endif  // ADAPTDL_LIBS_COMM_NCCL_COMMUNICATOR_H_
