// Messages over TCP, one connection to each peer, without a thread: whoever waits for a message moves all that
// can be moved meanwhile. So a small message costs no hand-over between threads, and what nobody waits for
// stays in the kernel's buffers.
//
// A message goes ahead of its data as slot and length. One whose receive was not asked for yet waits in the
// connection, and all behind it: receives must be asked for in the order in which the peer sends, except that
// others may be asked for earlier.
//
// Nobody gets in who was not told this member's address, which holds a secret. Inside libs/comm only.

#ifndef ADAPTDL_LIBS_COMM_SOCKET_TRANSPORT_H_
#define ADAPTDL_LIBS_COMM_SOCKET_TRANSPORT_H_

#include <memory>

#include "absl/status/statusor.h"
#include "libs/comm/transport.h"

namespace adaptdl::comm {

// Listens. UNAVAILABLE: it cannot.
absl::StatusOr<std::unique_ptr<Transport>> CreateSocketTransport(const TransportOptions& options);

}  // namespace adaptdl::comm

#endif  // ADAPTDL_LIBS_COMM_SOCKET_TRANSPORT_H_
