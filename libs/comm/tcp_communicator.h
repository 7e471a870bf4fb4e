// Members that are processes, on CPUs: collectives over messages between sockets (socket_transport.h).
//
//   auto communicator = ConnectTcp(**rendezvous, {.rank = 1, .size = 4, .host = "10.0.0.8"});
//
// Small values (up to some KiB) are exchanged directly by all, in one message each way; large ones go round a
// ring, in pieces of which several are under way. What is started asynchronously runs in order, in a thread of
// the communicator's; what is waited for at once runs in the caller's, if nothing else is under way. Sums of
// small values are taken in order of rank; those of large ones in the ring's order, which is the same on all
// members.

#ifndef ADAPTDL_LIBS_COMM_TCP_COMMUNICATOR_H_
#define ADAPTDL_LIBS_COMM_TCP_COMMUNICATOR_H_

#include <memory>

#include "absl/status/statusor.h"
#include "libs/comm/communicator.h"
#include "libs/comm/tcp_rendezvous.h"

namespace adaptdl::comm {

// Blocks until all members are connected. Codes as those of TcpRendezvous::Meet() and of collectives. The
// rendezvous need not outlive the communicator.
absl::StatusOr<std::unique_ptr<Communicator>> ConnectTcp(TcpRendezvous& rendezvous,
                                                         const ConnectOptions& options);

}  // namespace adaptdl::comm

#endif  // ADAPTDL_LIBS_COMM_TCP_COMMUNICATOR_H_
