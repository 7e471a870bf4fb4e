#include "libs/service/lean_connections.h"

#include <cstdlib>

#include "grpcpp/version_info.h"
#include "openssl/crypto.h"
#include "openssl/ssl.h"

#if GRPC_CPP_VERSION_MAJOR == 1 && GRPC_CPP_VERSION_MINOR == 51
#define ADAPTDL_KNOWN_GRPC
#endif

#ifdef ADAPTDL_SHARED_GRPC

#include <dlfcn.h>

#include "grpc/event_engine/memory_allocator.h"
#include "grpc/slice.h"
#include "libs/service/bio_pair.h"

// Symbols of a program go before those of its libraries, also where one library calls the other.

// gRPC asks for OpenSSL's own sizes (0), of which bio_pair.h keeps the bound.
extern "C" __attribute__((visibility("default"))) int BIO_new_bio_pair(BIO** one, size_t /*one_bytes*/,
                                                                       BIO** other, size_t /*other_bytes*/) {
  return adaptdl::service::MakeBioPair(one, other) ? 1 : 0;
}

// All that asks for exactly so much in this version are the buffers between a connection's TLS and its socket, which take
// what they get. In others something else may, and may not.
#ifdef ADAPTDL_KNOWN_GRPC

namespace grpc_event_engine::experimental {

__attribute__((visibility("default"))) grpc_slice MemoryAllocator::MakeSlice(MemoryRequest request) {
  using Function = grpc_slice (*)(MemoryAllocator*, MemoryRequest);
  static const auto next = reinterpret_cast<Function>(dlsym(
      RTLD_NEXT, "_ZN17grpc_event_engine12experimental15MemoryAllocator9MakeSliceENS0_13MemoryRequestE"));
  // The library is another than the headers: nothing can be made without its own.
  if (next == nullptr) std::abort();
  constexpr size_t kUsualBytes = 8192;
  if (request.min() == kUsualBytes && request.max() == kUsualBytes) {
    request = MemoryRequest(adaptdl::service::kBufferBytes);
  }
  return next(this, request);
}

}  // namespace grpc_event_engine::experimental

#endif
#endif

namespace adaptdl::service {
namespace {

// OpenSSL calls it with each new connection.
void ReleaseBuffers(void* ssl, void* /*value*/, CRYPTO_EX_DATA* /*data*/, int /*index*/, long /*number*/,
                    void* /*pointer*/) {
  SSL_set_mode(static_cast<SSL*>(ssl), SSL_MODE_RELEASE_BUFFERS);
}

}  // namespace

void UseLeanConnections() {
#ifdef ADAPTDL_KNOWN_GRPC
  // Else connections read into blocks of 8 KiB at least, which they hold while they wait for what comes. Read by gRPC at its
  // first connection; whoever runs the program may have set it.
  // NOLINTNEXTLINE(concurrency-mt-unsafe): there are no other threads yet
  setenv("GRPC_EXPERIMENTS", "-tcp_read_chunks", /*overwrite=*/0);
#endif
  // gRPC does not show its SSL objects, and has no option for their mode. The index itself is not used.
  [[maybe_unused]] static const int index =
      SSL_get_ex_new_index(0, nullptr, &ReleaseBuffers, nullptr, nullptr);
}

}  // namespace adaptdl::service
