// What all our servers share: a gRPC server with health, metrics, limits and a graceful end.
//
//   CLI::App app{"..."};
//   service::ServerOptions options;
//   options.name = "allocator"; options.listen = "127.0.0.1:7101";
//   service::AddServerFlags(app, &options);
//   ... parse, best by RunMain() of main.h ...
//   auto server = service::Server::Start(options, {&my_service});
//   (*server)->WaitForTermination();   // SIGTERM, SIGINT or Shutdown()
//
// Every flag "--a-b" can also be given as the environment variable ADAPTDL_SERVER_A_B.

#ifndef ADAPTDL_LIBS_SERVICE_SERVER_H_
#define ADAPTDL_LIBS_SERVICE_SERVER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/service/security/server_security.h"
#include "libs/service/tracing.h"

namespace CLI {
class App;
}  // namespace CLI
namespace grpc {
class Service;
}
namespace prometheus {
class Registry;
}

namespace adaptdl::service {

struct ServerOptions {
  // Name of the program without "adaptdl-": the "service" field of logs, and a label of metrics.
  std::string name;
  // "host:port" of the gRPC server. Port 0: any free one.
  std::string listen;
  // "host:port" of /metrics over HTTP. Port 0: any free one. Empty: none.
  std::string metrics_listen;
  // When not empty: this file gets "host:port" of the gRPC server once it listens (written atomically), and
  // the same path with ".metrics" appended that of /metrics. Both are gone
  // again after an orderly end.
  std::string address_file;
  // Logs: see log.h.
  std::string log_format = "console";
  std::string log_level = "info";
  std::string log_file;
  // gRPC server reflection.
  bool reflection = false;
  // Largest message that is accepted, in bytes.
  int max_message_bytes = 4 << 20;
  // Time that calls in progress get to finish after SIGTERM.
  absl::Duration drain_timeout = absl::Seconds(10);
  // Where traces of calls go, if anywhere.
  TracingOptions tracing;
  // What MakeTracer() has made of `tracing`, for programs that make spans of their own. Null: the server makes one, if
  // there is to be one.
  std::shared_ptr<tracing::Tracer> tracer;
  // Who may connect and call.
  security::SecurityOptions security;
  // What MakeGuard() has made of `security`, for programs whose handlers ask it too. Null: the server makes
  // one.
  std::shared_ptr<const security::Guard> guard;
};

// Adds the flags of `options` (--listen, --metrics-listen, --address-file, --log-format, --log-level,
// --log-file, --reflection, --max-message-bytes, --drain-timeout, --version, and those of AddTracingFlags() and
// AddSecurityFlags())
// to `app`, with what `options` holds as defaults. Logs are set up as soon as the flags are parsed. `options`
// must outlive the parsing. See also flags.h (flags of the program's own) and main.h (the frame of main()).
void AddServerFlags(CLI::App& app, ServerOptions* options);

// Thread-safe.
class Server {
 public:
  // Initialises logging, blocks SIGTERM and SIGINT in the whole process (call it before any thread is made),
  // starts /metrics and the gRPC server with `services` (not owned; they outlive the server), and reports
  // SERVING for the server as a whole and for each service. An address that can't be bound: UNAVAILABLE, with
  // the address, the flag and why. One that is no "host:port", and options of security that do not fit
  // (CheckSecurity()): INVALID_ARGUMENT. A service that was
  // registered twice or an address file that can't be written fail as well.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options,
                                                       const std::vector<grpc::Service*>& services);
  virtual ~Server() = default;

  // "host:port" that the gRPC server listens on, with the real port.
  virtual std::string address() const = 0;
  // The same for /metrics. Empty: none.
  virtual std::string metrics_address() const = 0;

  // Where the program registers its own metrics. Counts, latencies and codes per gRPC method are there
  // already.
  virtual std::shared_ptr<prometheus::Registry> metrics() = 0;

  // Called once, when the end begins, before calls in progress are waited for: end streams here. Set it
  // before WaitForTermination().
  virtual void OnDrain(std::function<void()> callback) = 0;

  // Blocks until SIGTERM, SIGINT or Shutdown(), then: NOT_SERVING, OnDrain callback, no new calls, calls in
  // progress finish within drain_timeout or are cancelled.
  virtual void WaitForTermination() = 0;

  // Makes WaitForTermination() go on as if SIGTERM had come. Does not block.
  virtual void Shutdown() = 0;
};

}  // namespace adaptdl::service

#endif  // ADAPTDL_LIBS_SERVICE_SERVER_H_
