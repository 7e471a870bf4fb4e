// The other end's IP address. Pure function; thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_ENROLMENT_PEER_ADDRESS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_ENROLMENT_PEER_ADDRESS_H_

#include <string>

#include "absl/strings/string_view.h"

namespace adaptdl::supervisor {

// The address in the one way in which it is written here ("10.0.0.1", "2001:db8::1"; an IPv4 address within IPv6 as
// such). Takes gRPC's name of a peer ("ipv4:10.0.0.1:41234", "ipv6:%5B::1%5D:41234") or an address. Empty: it is none.
std::string AddressOf(absl::string_view peer);

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_ENROLMENT_PEER_ADDRESS_H_
