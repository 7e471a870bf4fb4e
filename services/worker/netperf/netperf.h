// How fast two machines talk by TCP: round trips of a byte, and the bandwidth of long messages from the one who measures to
// the one who serves. The measured one serves a single caller, who proves by a token that it is the expected one.
//
// Thread-safety: plain functions, on sockets that the caller owns. All of them are bounded in time and memory,
// whatever the other side does; Serve() goes on until the expected caller has come.

#ifndef ADAPTDL_SERVICES_WORKER_NETPERF_NETPERF_H_
#define ADAPTDL_SERVICES_WORKER_NETPERF_NETPERF_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/base/clock.h"
#include "libs/base/unique_fd.h"

namespace adaptdl::netperf {

// Characters of a token.
inline constexpr size_t kTokenSize = 32;

struct Listener {
  UniqueFd socket;
  int port = 0;
};

// Of each round, in the order of the rounds.
struct Measurement {
  std::vector<double> round_trip_seconds;
  std::vector<double> bytes_per_second;
};

// On all interfaces, at a free port.
absl::StatusOr<Listener> Listen();

// Lets the first caller who knows the token measure, until it is done. Others are turned away.
absl::Status Serve(const Listener& listener, absl::string_view token);

// Measures the way to who serves at the host and port.
absl::StatusOr<Measurement> Measure(const std::string& host, int port, absl::string_view token,
                                    const Clock& clock);

// One line, without its end: {"port":N}, {"roundTripSeconds":[...],"bytesPerSecond":[...]}, {"error":"..."}.
std::string PortLine(int port);
std::string MeasurementLine(const Measurement& measurement);
std::string ErrorLine(const absl::Status& status);

}  // namespace adaptdl::netperf

#endif  // ADAPTDL_SERVICES_WORKER_NETPERF_NETPERF_H_
