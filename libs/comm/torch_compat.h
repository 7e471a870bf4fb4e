// What differs between the LibTorch versions that we build with: 1.13 (Debian, CPU) and 2.x (upstream, CUDA).
// Included by .cc files of this folder only.

#ifndef ADAPTDL_LIBS_COMM_TORCH_COMPAT_H_
#define ADAPTDL_LIBS_COMM_TORCH_COMPAT_H_

// LibTorch's packages hold the process groups without saying so: their headers need these definitions.
#ifndef USE_C10D_GLOO
#define USE_C10D_GLOO
#endif
#if defined(ADAPTDL_WITH_NCCL) && !defined(USE_C10D_NCCL)
#define USE_C10D_NCCL
#endif

#include <chrono>
#include <memory>
#include <string>

#include "torch/csrc/distributed/c10d/PrefixStore.hpp"
#include "torch/csrc/distributed/c10d/ProcessGroupGloo.hpp"
#include "torch/csrc/distributed/c10d/TCPStore.hpp"
#ifdef ADAPTDL_WITH_NCCL
#include "torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp"
#endif
#include "torch/version.h"

namespace adaptdl::comm::compat {

// The class that runs collectives: c10d::ProcessGroup became a dispatcher over c10d::Backend in 2.0.
#if TORCH_VERSION_MAJOR >= 2
using Backend = c10d::Backend;
#else
using Backend = c10d::ProcessGroup;
#endif

// Gives access to the connections, which c10d has no way to close.
class ClosableGloo final : public c10d::ProcessGroupGloo {
 public:
  using c10d::ProcessGroupGloo::ProcessGroupGloo;

  void CloseConnections() {
    for (const auto& context : contexts_) context->closeConnections();
  }
};

inline c10::intrusive_ptr<c10d::Store> MakeTcpStore(const std::string& host, uint16_t port, bool is_server,
                                                    std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = port;
  options.isServer = is_server;
  options.waitWorkers = false;
  options.timeout = timeout;
  return c10::make_intrusive<c10d::TCPStore>(host, options);
}

inline uint16_t PortOf(const c10d::Store& store) {
  return static_cast<const c10d::TCPStore&>(store).getPort();
}

}  // namespace adaptdl::comm::compat

#endif  // ADAPTDL_LIBS_COMM_TORCH_COMPAT_H_
