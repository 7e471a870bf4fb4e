// Members that are processes with a GPU each: NCCL. Needs the CUDA toolkit and NCCL to build, not LibTorch.
//
// Takes buffers on the member's GPU and, by way of it, buffers in main memory. Everything runs on a stream of
// the communicator's own, which first waits for what is on the current stream when a collective is started.
// Wait() lets the current stream wait for the collective, not the caller: whatever is put on that stream
// afterwards finds the result, and a failure shows in the next status. With buffers in main memory Wait()
// blocks. An all-gather first agrees on the longest part, and blocks for that when it is started.
//
// A thread watches the collectives under way, so that deadlines and lost members end them (ncclCommAbort):
// NCCL's kernels would wait for ever.

#ifndef ADAPTDL_LIBS_COMM_NCCL_COMMUNICATOR_H_
#define ADAPTDL_LIBS_COMM_NCCL_COMMUNICATOR_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "libs/comm/communicator.h"
#include "libs/comm/tcp_rendezvous.h"

namespace adaptdl::comm {

struct NcclOptions {
  // The GPU of this member.
  int cuda_device = 0;
  // The stream (a cudaStream_t) that the caller's kernels are put on now. Empty: the default stream.
  std::function<void*()> current_stream;
};

// As ConnectTcp(). FAILED_PRECONDITION: no such GPU.
absl::StatusOr<std::unique_ptr<Communicator>> ConnectNccl(TcpRendezvous& rendezvous,
                                                          const ConnectOptions& options,
                                                          const NcclOptions& nccl_options);

}  // namespace adaptdl::comm

#endif  // ADAPTDL_LIBS_COMM_NCCL_COMMUNICATOR_H_
