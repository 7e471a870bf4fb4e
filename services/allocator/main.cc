// adaptdl-allocator: decides how many replicas each job gets, and where.

#include <memory>
#include <string>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "adaptdl/v1/scheduling_service.grpc.pb.h"
#include "libs/base/clock.h"
#include "libs/base/random_id.h"
#include "libs/rpc/endpoints.h"
#include "libs/scheduling/goodput/goodput_policy.h"
#include "libs/service/client_security.h"
#include "libs/service/flags.h"
#include "libs/service/main.h"
#include "libs/service/server.h"
#include "services/allocator/allocator.h"
#include "services/allocator/capacity_service.h"
#include "services/allocator/metrics.h"

namespace adaptdl::allocator {
namespace {

// Tells allocators apart, and people where each is.
std::string HolderName() {
  char host[64] = {};
  gethostname(host, sizeof(host) - 1);
  return absl::StrCat(host, "/", getpid(), "/", RandomHex(4));
}

// The flag is there for who has set it.
absl::Status CheckPolicy(const std::string& name) {
  if (name == "goodput") return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--policy: \"", name,
      "\" is not offered here: the allocator decides by \"goodput\". Leave the flag out; published "
      "policies are compared with it by \"adaptdl-sim replay\""));
}

absl::Status Run(service::ServerOptions server_options, AllocatorOptions options,
                 const std::string& supervisor_addresses, const std::string& tls_server_name,
                 const std::string& policy_name) {
  const auto addresses = rpc::ParseEndpoints("--supervisor", supervisor_addresses);
  if (!addresses.ok()) return addresses.status();
  if (absl::Status status = CheckPolicy(policy_name); !status.ok()) return status;
  const scheduling::GoodputPolicy policy({});
  CapacityBoard capacity;
  DemandBoard demands;
  CapacityService capacity_service(&capacity, &demands);
  const absl::StatusOr<std::shared_ptr<tracing::Tracer>> tracer =
      service::MakeTracer(server_options.tracing, "adaptdl-allocator");
  if (!tracer.ok()) return tracer.status();
  server_options.tracer = *tracer;
  auto server = service::Server::Start(server_options, {&capacity_service});
  if (!server.ok()) return server.status();
  Metrics metrics((*server)->metrics().get());
  const RealClock clock;
  rpc::Endpoints supervisors(*addresses, security::ClientSide(server_options.security, tls_server_name));
  options.holder = HolderName();
  Allocator allocator(options, {&policy, &supervisors, &clock, &capacity, &demands, &metrics, tracer->get()});
  allocator.Start();
  (*server)->WaitForTermination();
  allocator.Stop();
  return absl::OkStatus();
}

}  // namespace
}  // namespace adaptdl::allocator

int main(int argc, char** argv) {
  CLI::App app{"AdaptDL allocator: decides how many replicas each job gets, and on which nodes."};
  adaptdl::service::ServerOptions server_options;
  server_options.name = "allocator";
  server_options.listen = "127.0.0.1:7101";
  server_options.metrics_listen = "127.0.0.1:7201";
  adaptdl::service::AddServerFlags(app, &server_options);
  std::string supervisor = "127.0.0.1:7100";
  app.add_option("--supervisor", supervisor,
                 "host:port of the supervisor, or of several, separated by commas")
      ->capture_default_str();
  std::string tls_server_name;
  adaptdl::service::AddServerNameFlag(app, &tls_server_name);
  std::string policy = "goodput";
  app.add_option("--policy", policy, "how to allocate: goodput")->capture_default_str();
  adaptdl::allocator::AllocatorOptions options;
  adaptdl::service::AddDurationFlag(app, "--interval", &options.interval, "longest time between two rounds",
                                    absl::Milliseconds(10));
  adaptdl::service::AddDurationFlag(app, "--debounce", &options.debounce,
                                    "time to wait for further changes after one");
  return adaptdl::service::RunMain(app, argc, argv, [&] {
    return adaptdl::allocator::Run(server_options, options, supervisor, tls_server_name, policy);
  });
}
