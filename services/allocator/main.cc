// adaptdl-allocator: decides how many replicas each job gets, and where.

#include <memory>
#include <string>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "absl/status/status.h"
#include "adaptdl/v1/scheduling_service.grpc.pb.h"
#include "libs/base/clock.h"
#include "libs/rpc/channel.h"
#include "libs/scheduling/greedy_policy.h"
#include "libs/service/flags.h"
#include "libs/service/main.h"
#include "libs/service/server.h"
#include "services/allocator/allocator.h"
#include "services/allocator/capacity_service.h"
#include "services/allocator/metrics.h"

namespace adaptdl::allocator {
namespace {

absl::Status Run(const service::ServerOptions& server_options, const AllocatorOptions& options,
                 const std::string& supervisor_address) {
  CapacityBoard capacity;
  CapacityService capacity_service(&capacity);
  auto server = service::Server::Start(server_options, {&capacity_service});
  if (!server.ok()) return server.status();
  Metrics metrics((*server)->metrics().get());
  const scheduling::GreedyPolicy policy({});
  const RealClock clock;
  const auto stub = v1::SchedulingService::NewStub(rpc::CreateChannel(supervisor_address));
  Allocator allocator(options, {&policy, stub.get(), &clock, &capacity, &metrics});
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
  adaptdl::allocator::AllocatorOptions options;
  adaptdl::service::AddDurationFlag(app, "--interval", &options.interval, "longest time between two rounds",
                                    absl::Milliseconds(10));
  adaptdl::service::AddDurationFlag(app, "--debounce", &options.debounce,
                                    "time to wait for further changes after one");
  return adaptdl::service::RunMain(
      app, argc, argv, [&] { return adaptdl::allocator::Run(server_options, options, supervisor); });
}
