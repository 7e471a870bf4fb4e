// Addresses to listen on, and why one can't be had. Thread-safe.

#ifndef ADAPTDL_LIBS_SERVICE_LISTEN_ADDRESS_H_
#define ADAPTDL_LIBS_SERVICE_LISTEN_ADDRESS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace adaptdl::service {

struct ListenAddress {
  // Name or IP address; IPv6 in brackets.
  std::string host;
  // 0: any free one.
  int port = 0;
};

// "host:port". `flag` is named in the error (INVALID_ARGUMENT).
absl::StatusOr<ListenAddress> ParseListenAddress(absl::string_view flag, absl::string_view text);

// Whether only this machine can reach it: "localhost", 127.0.0.0/8 or [::1].
bool IsLoopback(const ListenAddress& address);

// For an address that a server failed to listen on: UNAVAILABLE with the reason, found by trying to bind it.
absl::Status ListenError(absl::string_view flag, const ListenAddress& address);

// Connects to the address and hangs up: wakes a server that waits for connections. Failures do not matter.
void Knock(const ListenAddress& address);

}  // namespace adaptdl::service

#endif  // ADAPTDL_LIBS_SERVICE_LISTEN_ADDRESS_H_
