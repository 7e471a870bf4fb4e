#include "libs/service/server.h"

#include <unistd.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "CLI/Option.hpp"
#include "CLI/Validators.hpp"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/impl/server_builder_option.h"
#include "grpcpp/impl/server_builder_plugin.h"
#include "grpcpp/impl/server_initializer.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "grpcpp/support/server_interceptor.h"
#include "libs/base/clock.h"
#include "libs/base/file.h"
#include "libs/base/mutex.h"
#include "libs/base/version.h"
#include "libs/rpc/channel.h"
#include "libs/service/flags.h"
#include "libs/service/grpc_log.h"
#include "libs/service/listen_address.h"
#include "libs/service/log.h"
#include "libs/service/metrics_page.h"
#include "libs/service/rpc_metrics.h"
#include "libs/service/security/audit_interceptor.h"
#include "libs/service/termination.h"

namespace adaptdl::service {
namespace {

// gRPC knows the names of the services that it was given, but tells them to plug-ins only; health needs them.
class NamesPlugin final : public grpc::ServerBuilderPlugin {
 public:
  explicit NamesPlugin(std::vector<std::string>* names) : names_(names) {}
  std::string name() override { return "adaptdl_service_names"; }
  void InitServer(grpc::ServerInitializer*) override {}
  void Finish(grpc::ServerInitializer* initializer) override { *names_ = *initializer->GetServiceList(); }
  void ChangeArguments(const std::string&, void*) override {}

 private:
  std::vector<std::string>* const names_;
};

// Chooses a builder's plug-ins. Linking gRPC's reflection library adds its plug-in to every builder: it is
// taken away where reflection is off.
class PluginsOption final : public grpc::ServerBuilderOption {
 public:
  PluginsOption(bool reflection, std::vector<std::string>* names) : reflection_(reflection), names_(names) {}
  void UpdateArguments(grpc::ChannelArguments*) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    plugins->clear();
    if (reflection_) plugins->push_back(std::make_unique<grpc::reflection::ProtoServerReflectionPlugin>());
    plugins->push_back(std::make_unique<NamesPlugin>(names_));
  }

 private:
  const bool reflection_;
  std::vector<std::string>* const names_;
};

// Of the records that TLS makes of what is sent. Each connection keeps a buffer for one, which is 16 KiB
// unless told; messages to nodes and replicas are much shorter.
constexpr int kTlsFrameBytes = 2048;
// What a connection reads into while it waits: heartbeats are shorter.
constexpr int kFirstReadBytes = 1024;

log::Options LogOptions(const ServerOptions& options) {
  log::Options log;
  log.format = options.log_format;
  log.level = options.log_level;
  log.service = options.name;
  log.file = options.log_file;
  return log;
}

// Anybody may open connections: those that do not get to their first call, and those that make none for long,
// are closed. (Clients connect again when they have something to say.)
constexpr absl::Duration kHandshakeTimeout = absl::Seconds(30);
constexpr absl::Duration kIdleTimeout = absl::Minutes(10);

void SetLimits(const ServerOptions& options, grpc::ServerBuilder* builder) {
  builder->SetMaxReceiveMessageSize(options.max_message_bytes);
  builder->SetMaxSendMessageSize(options.max_message_bytes);
  builder->AddChannelArgument(GRPC_ARG_TSI_MAX_FRAME_SIZE, kTlsFrameBytes);
  // At first; for what comes later, as much as came lately. Programs with UseLeanConnections() only.
  builder->AddChannelArgument(GRPC_ARG_TCP_READ_CHUNK_SIZE, kFirstReadBytes);
  // Nobody asks for what it counts and remembers of each connection and stream.
  builder->AddChannelArgument(GRPC_ARG_ENABLE_CHANNELZ, 0);
  builder->AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                              static_cast<int>(absl::ToInt64Milliseconds(kHandshakeTimeout)));
  builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS,
                              static_cast<int>(absl::ToInt64Milliseconds(kIdleTimeout)));
  // See rpc::MakeChannelArguments().
  builder->AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  // A second server on the same port must be an error, not a lottery.
  builder->AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // Clients ping each rpc::kKeepalivePeriod, with calls in progress or without; twice as often is still
  // permitted.
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                              static_cast<int>(absl::ToInt64Milliseconds(rpc::kKeepalivePeriod / 2)));
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  // The server's own pings end streams of clients that vanished without a word. Whoever has a lease is missed
  // much sooner.
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 120'000);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
}

class GrpcServer final : public Server {
 public:
  GrpcServer(const ServerOptions& options, std::unique_ptr<Termination> termination)
      : options_(options), termination_(std::move(termination)) {}

  ~GrpcServer() override {
    if (server_ == nullptr) return;
    server_->Shutdown(rpc::DeadlineAfter(absl::ZeroDuration()));
    server_->Wait();
  }

  absl::Status Start(const std::vector<grpc::Service*>& services);

  std::string address() const override { return address_; }
  std::string metrics_address() const override { return metrics_->address(); }
  std::shared_ptr<prometheus::Registry> metrics() override { return metrics_->registry(); }

  void OnDrain(std::function<void()> callback) override {
    MutexLock lock(&mutex_);
    on_drain_ = std::move(callback);
  }

  void WaitForTermination() override;
  void Shutdown() override { termination_->Request(); }

 private:
  absl::Status StartGrpc(const std::vector<grpc::Service*>& services);
  absl::StatusOr<std::shared_ptr<const security::Guard>> TakeGuard() const;
  absl::StatusOr<std::shared_ptr<tracing::Tracer>> TakeTracer() const;
  void AddInterceptors(const std::shared_ptr<const security::Guard>& guard,
                       const std::shared_ptr<tracing::Tracer>& tracer, grpc::ServerBuilder* builder) const;
  absl::Status WriteAddressFiles() const;
  void RemoveAddressFiles() const;

  const ServerOptions options_;
  const RealClock clock_;
  const std::unique_ptr<Termination> termination_;
  // Outlives the server, whose calls are counted in it.
  std::unique_ptr<MetricsPage> metrics_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
  Mutex mutex_;
  std::function<void()> on_drain_ ABSL_GUARDED_BY(mutex_);
};

absl::Status GrpcServer::Start(const std::vector<grpc::Service*>& services) {
  // What a former process left there would mislead whoever waits for this one.
  if (!options_.address_file.empty()) RemoveAddressFiles();
  absl::StatusOr<std::unique_ptr<MetricsPage>> metrics =
      MetricsPage::Create(options_.metrics_listen, options_.name);
  if (!metrics.ok()) return metrics.status();
  metrics_ = *std::move(metrics);
  if (const absl::Status status = StartGrpc(services); !status.ok()) return status;
  if (const absl::Status status = WriteAddressFiles(); !status.ok()) return status;
  log::Info("serving", {{"address", address_},
                        {"metrics", metrics_->address()},
                        {"version", Version()},
                        {"pid", absl::StrCat(getpid())}});
  return absl::OkStatus();
}

absl::Status GrpcServer::StartGrpc(const std::vector<grpc::Service*>& services) {
  const absl::StatusOr<ListenAddress> listen = ParseListenAddress("--listen", options_.listen);
  if (!listen.ok()) return listen.status();
  if (const absl::Status status = security::CheckSecurity(options_.security, options_.listen); !status.ok())
    return status;
  const absl::StatusOr<std::shared_ptr<const security::Guard>> guard = TakeGuard();
  if (!guard.ok()) return guard.status();
  const absl::StatusOr<std::shared_ptr<tracing::Tracer>> tracer = TakeTracer();
  if (!tracer.ok()) return tracer.status();
  grpc::EnableDefaultHealthCheckService(true);
  std::vector<std::string> names;
  grpc::ServerBuilder builder;
  builder.SetOption(std::make_unique<PluginsOption>(options_.reflection, &names));
  SetLimits(options_, &builder);
  AddInterceptors(*guard, *tracer, &builder);
  int port = 0;
  builder.AddListeningPort(options_.listen, security::MakeServerCredentials(options_.security, *guard),
                           &port);
  for (grpc::Service* service : services) builder.RegisterService(service);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr || port == 0) return ListenError("--listen", *listen);
  address_ = absl::StrCat(listen->host, ":", port);
  for (const std::string& name : names) server_->GetHealthCheckService()->SetServingStatus(name, true);
  server_->GetHealthCheckService()->SetServingStatus(true);
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const security::Guard>> GrpcServer::TakeGuard() const {
  if (options_.guard != nullptr) return options_.guard;
  return security::MakeGuard(options_.security, &clock_);
}

absl::StatusOr<std::shared_ptr<tracing::Tracer>> GrpcServer::TakeTracer() const {
  if (options_.tracer != nullptr) return options_.tracer;
  return MakeTracer(options_.tracing, absl::StrCat("adaptdl-", options_.name));
}

void GrpcServer::AddInterceptors(const std::shared_ptr<const security::Guard>& guard,
                                 const std::shared_ptr<tracing::Tracer>& tracer,
                                 grpc::ServerBuilder* builder) const {
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> factories;
  factories.push_back(MakeRpcMetrics(metrics_->registry()));
  if (guard->audit_log() != nullptr) factories.push_back(security::MakeAuditInterceptors(guard));
  if (tracer != nullptr) factories.push_back(MakeCallSpans(tracer, &clock_));
  builder->experimental().SetInterceptorCreators(std::move(factories));
}

absl::Status GrpcServer::WriteAddressFiles() const {
  if (options_.address_file.empty()) return absl::OkStatus();
  // The main one last: whoever sees it finds the other.
  if (!metrics_->address().empty()) {
    const absl::Status status =
        WriteFileAtomically(absl::StrCat(options_.address_file, ".metrics"), metrics_->address());
    if (!status.ok()) return status;
  }
  return WriteFileAtomically(options_.address_file, address_);
}

void GrpcServer::RemoveAddressFiles() const {
  unlink(options_.address_file.c_str());
  unlink(absl::StrCat(options_.address_file, ".metrics").c_str());
}

void GrpcServer::WaitForTermination() {
  const std::string cause = termination_->Wait();
  log::Info("draining", {{"cause", cause}, {"limit", absl::FormatDuration(options_.drain_timeout)}});
  server_->GetHealthCheckService()->SetServingStatus(false);
  std::function<void()> on_drain;
  {
    MutexLock lock(&mutex_);
    on_drain = std::exchange(on_drain_, nullptr);
  }
  if (on_drain) on_drain();
  server_->Shutdown(rpc::DeadlineAfter(options_.drain_timeout));
  server_->Wait();
  // Unless a successor that came early has written its own.
  if (!options_.address_file.empty() && ReadWholeFile(options_.address_file).value_or("") == address_) {
    RemoveAddressFiles();
  }
  log::Info("stopped");
}

}  // namespace

void AddServerFlags(CLI::App& app, ServerOptions* options) {
  const auto add = [&app](const std::string& name, auto& value, const std::string& help) {
    return ReadFromEnvironment(app.add_option(name, value, help)->capture_default_str());
  };
  add("--listen", options->listen, "Where to serve gRPC, as host:port (port 0: any free one)")
      ->type_name("ADDRESS");
  add("--metrics-listen", options->metrics_listen, "Where to serve /metrics over HTTP (empty: nowhere)")
      ->type_name("ADDRESS");
  add("--address-file", options->address_file,
      "File that gets the address once the server listens; FILE.metrics gets that of /metrics")
      ->type_name("FILE");
  add("--log-format", options->log_format, "Form of the logs")->check(CLI::IsMember({"console", "json"}));
  add("--log-level", options->log_level, "Least severe level to log")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}));
  add("--log-file", options->log_file,
      "File for the logs, begun anew when it is full (empty: they go to stderr)")
      ->type_name("FILE");
  ReadFromEnvironment(app.add_flag("--reflection", options->reflection, "Serve gRPC reflection"));
  add("--max-message-bytes", options->max_message_bytes, "Largest message that is accepted")
      ->check(CLI::Range(1024, 1 << 30))
      ->type_name("BYTES");
  AddDurationFlag(app, "--drain-timeout", &options->drain_timeout,
                  "Time that calls in progress get to finish after SIGTERM");
  AddTracingFlags(app, &options->tracing);
  security::AddSecurityFlags(app, &options->security);
  app.set_version_flag("--version", absl::StrCat("adaptdl-", options->name, " ", Version()));
  app.parse_complete_callback([options] {
    // The flags' own checks leave nothing that could fail but the file, and that fails again at the start.
    log::Initialize(LogOptions(*options)).IgnoreError();
  });
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options,
                                                      const std::vector<grpc::Service*>& services) {
  const absl::Status logging = log::Initialize(LogOptions(options));
  if (!logging.ok()) return logging;
  RouteGrpcLog();
  absl::StatusOr<std::unique_ptr<Termination>> termination = Termination::Create();
  if (!termination.ok()) return termination.status();
  auto server = std::make_unique<GrpcServer>(options, *std::move(termination));
  if (const absl::Status status = server->Start(services); !status.ok()) return status;
  return server;
}

}  // namespace adaptdl::service
