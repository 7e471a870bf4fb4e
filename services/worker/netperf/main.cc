// adaptdl-netperf: one end of a measurement of the network between two nodes. Not for people; "adaptdl doctor --bandwidth"
// starts it.
//
//   adaptdl-netperf serve                 prints {"port":N}, and lets one caller measure
//   adaptdl-netperf measure HOST PORT     prints what it has measured, or {"error":"..."}
//
// Both ends have the same token in $NETPERF_TOKEN.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "libs/base/clock.h"
#include "services/worker/netperf/netperf.h"

namespace {

namespace netperf = adaptdl::netperf;

// SIGALRM ends what was forgotten, by whoever had started it. The other end may have to wait for its node.
constexpr unsigned kMostSeconds = 180;
constexpr int kExitUsage = 2;

void PrintLine(const std::string& line) {
  printf("%s\n", line.c_str());
  fflush(stdout);
}

absl::Status ServeOne(const std::string& token) {
  const absl::StatusOr<netperf::Listener> listener = netperf::Listen();
  if (!listener.ok()) return listener.status();
  PrintLine(netperf::PortLine(listener->port));
  return netperf::Serve(*listener, token);
}

absl::Status MeasureOnce(const std::string& host, int port, const std::string& token) {
  const absl::StatusOr<netperf::Measurement> measurement =
      netperf::Measure(host, port, token, adaptdl::RealClock());
  if (measurement.ok()) PrintLine(netperf::MeasurementLine(*measurement));
  return measurement.status();
}

}  // namespace

int main(int argc, char** argv) {
  const absl::string_view role = argc > 1 ? argv[1] : "";
  const char* const variable = getenv("NETPERF_TOKEN");  // NOLINT(concurrency-mt-unsafe): there is one thread
  const std::string token = variable == nullptr ? "" : variable;
  int port = 0;
  const bool serves = role == "serve" && argc == 2;
  const bool measures = role == "measure" && argc == 4 && absl::SimpleAtoi(argv[3], &port);
  if ((!serves && !measures) || token.size() != netperf::kTokenSize) {
    fprintf(stderr, "usage: NETPERF_TOKEN=%zu-CHARACTERS adaptdl-netperf serve | measure HOST PORT\n",
            netperf::kTokenSize);
    return kExitUsage;
  }
  alarm(kMostSeconds);
  const absl::Status status = serves ? ServeOne(token) : MeasureOnce(argv[2], port, token);
  // An error is an answer as well, and no failure of the job: those are held against the node.
  if (!status.ok()) PrintLine(netperf::ErrorLine(status));
  return EXIT_SUCCESS;
}
