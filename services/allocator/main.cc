// adaptdl-allocator: decides how many replicas each job gets, and where.

#include <memory>
#include <string>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "adaptdl/v1/scheduling_service.grpc.pb.h"
#include "libs/base/clock.h"
#include "libs/rpc/channel.h"
#include "libs/scheduling/policies.h"
#include "libs/service/client_security.h"
#include "libs/service/flags.h"
#include "libs/service/main.h"
#include "libs/service/server.h"
#include "services/allocator/allocator.h"
#include "services/allocator/capacity_service.h"
#include "services/allocator/metrics.h"

namespace adaptdl::allocator {
namespace {

absl::Status Run(const service::ServerOptions& server_options, const AllocatorOptions& options,
                 const std::string& supervisor_address, const std::string& tls_server_name,
                 const std::string& policy_name) {
  const auto policy = scheduling::MakePolicy(policy_name);
  if (!policy.ok()) return policy.status();
  CapacityBoard capacity;
  CapacityService capacity_service(&capacity);
  auto server = service::Server::Start(server_options, {&capacity_service});
  if (!server.ok()) return server.status();
  Metrics metrics((*server)->metrics().get());
  const RealClock clock;
  const auto stub = v1::SchedulingService::NewStub(
      rpc::CreateChannel(supervisor_address, security::ClientSide(server_options.security, tls_server_name)));
  Allocator allocator(options, {policy->get(), stub.get(), &clock, &capacity, &metrics});
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
  app.add_option("--supervisor", supervisor, "host:port of the supervisor")->capture_default_str();
  std::string tls_server_name;
  adaptdl::service::AddServerNameFlag(app, &tls_server_name);
  std::string policy = "goodput";
  app.add_option(
         "--policy", policy,
         absl::StrCat("how to allocate: one of ", absl::StrJoin(adaptdl::scheduling::PolicyNames(), ", ")))
      ->capture_default_str();
  adaptdl::allocator::AllocatorOptions options;
  adaptdl::service::AddDurationFlag(app, "--interval", &options.interval, "longest time between two rounds",
                                    absl::Milliseconds(10));
  adaptdl::service::AddDurationFlag(app, "--debounce", &options.debounce,
                                    "time to wait for further changes after one");
  return adaptdl::service::RunMain(app, argc, argv, [&] {
    return adaptdl::allocator::Run(server_options, options, supervisor, tls_server_name, policy);
  });
}
