// How a server finds out that a client has vanished without a word: the kernel asks whoever has said nothing for long
// whether it is still there.
//
// gRPC's own pings would do as well, but it sets their timer anew with each message that comes, and Debian's build of it
// looks among the timers of all connections whether that is right.

#ifndef ADAPTDL_LIBS_SERVICE_KEEP_ALIVE_H_
#define ADAPTDL_LIBS_SERVICE_KEEP_ALIVE_H_

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace adaptdl::service {

struct KeepAliveOptions {
  // Silence after which a client is asked. Whole seconds, as is the next.
  absl::Duration idle = absl::Minutes(2);
  // How long it may owe an answer, or what was sent to it may not arrive, until the connection ends.
  absl::Duration patience = absl::Seconds(20);
};

// For all connections that come to this process at the port from now on; those that came before are not asked. NOT_FOUND: nothing listens there.
absl::Status KeepClientsAlive(int port, const KeepAliveOptions& options);

}  // namespace adaptdl::service

#endif  // ADAPTDL_LIBS_SERVICE_KEEP_ALIVE_H_
