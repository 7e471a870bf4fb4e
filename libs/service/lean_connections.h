// Memory of connections, of which a supervisor has one for each replica of the cluster.
//
// Between two heartbeats a TLS connection of gRPC holds some 100 KiB of empty buffers, and gRPC has no options for them.
// Where gRPC and OpenSSL are shared libraries, a program that links this file has it otherwise:
//
//   what                                        each holds   instead
//   OpenSSL's buffers for a record, two         16 KiB       while there is something in them (SSL_MODE_RELEASE_BUFFERS)
//   the pair of BIOs between gRPC and OpenSSL   2 * 17 KiB   while there is something in it (bio_pair.h)
//   gRPC's buffers of a connection, three       8 KiB        kBufferBytes; more of them when more is to be read or sent
//
// Nothing else changes: what is sent and accepted, and the bounds of it, are the same.

#ifndef ADAPTDL_LIBS_SERVICE_LEAN_CONNECTIONS_H_
#define ADAPTDL_LIBS_SERVICE_LEAN_CONNECTIONS_H_

#include <cstddef>

namespace adaptdl::service {

// Of each of gRPC's buffers of a connection. Messages to and from nodes and replicas are much shorter.
inline constexpr size_t kBufferBytes = 2048;

// For all connections of this process that are made from now on. To be called before the first; thread-safe, and may be
// called again.
void UseLeanConnections();

}  // namespace adaptdl::service

#endif  // ADAPTDL_LIBS_SERVICE_LEAN_CONNECTIONS_H_
