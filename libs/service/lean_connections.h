// Memory of connections, of which a supervisor has one for each replica of the cluster.
//
// Between two heartbeats a TLS connection of gRPC holds some 100 KiB of empty buffers, and gRPC has no options for them.
// Where gRPC and OpenSSL are shared libraries, a program that links this file has it otherwise:
//
//   what                                        each holds   instead
//   OpenSSL's buffers for a record, two         16 KiB       while there is something in them (SSL_MODE_RELEASE_BUFFERS)
//   the pair of BIOs between gRPC and OpenSSL   2 * 17 KiB   while there is something in it (bio_pair.h)
//   gRPC's buffers beside those, two            8 KiB        kBufferBytes; more of them when there is more
//   what gRPC reads into                        8 KiB        as much as came lately (GRPC_ARG_TCP_READ_CHUNK_SIZE at first)
//
// Nothing else changes: what is sent and accepted, and the bounds of it, are the same.

#ifndef ADAPTDL_LIBS_SERVICE_LEAN_CONNECTIONS_H_
#define ADAPTDL_LIBS_SERVICE_LEAN_CONNECTIONS_H_

#include <cstddef>

namespace adaptdl::service {

// Of those buffers of gRPC. Messages to and from nodes and replicas are much shorter.
inline constexpr size_t kBufferBytes = 2048;

// For all connections of this process. To be called by main functions before anything else: it sets an environment variable.
void UseLeanConnections();

}  // namespace adaptdl::service

#endif  // ADAPTDL_LIBS_SERVICE_LEAN_CONNECTIONS_H_
