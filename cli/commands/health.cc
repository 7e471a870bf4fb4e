#include <memory>
#include <string>

#include "CLI/App.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "cli/commands/commands.h"
#include "cli/format.h"
#include "cli/health_check.h"
#include "cli/output.h"
#include "cli/security.h"

namespace adaptdl::cli {
namespace {

struct HealthOptions {
  std::string address;
  std::string service;
  absl::Duration timeout = absl::Seconds(3);
};

absl::StatusOr<int> Health(const Context& context, const HealthOptions& options) {
  const absl::StatusOr<rpc::ClientSecurity> security = FindSecurity(context, options.address);
  if (!security.ok()) return security.status();
  const absl::StatusOr<std::string> health =
      CheckHealth(options.address, *security, options.service, options.timeout);
  if (absl::IsNotFound(health.status())) {
    return absl::NotFoundError(absl::StrCat(options.address, " has no service ", options.service));
  }
  if (!health.ok()) {
    return absl::Status(health.status().code(),
                        absl::StrCat(options.address, " is not healthy: ", health.status().message()));
  }
  if (context.format == Format::kTable) {
    Print(absl::StrCat(*health, "\n"));
  } else {
    PrintDocument(context, {{"address", options.address}, {"service", options.service}, {"status", *health}});
  }
  return *health == "SERVING" ? kExitOk : kExitError;
}

}  // namespace

void AddHealth(CLI::App& app, Context* context) {
  CLI::App* command = app.add_subcommand(
      "health", "Ask a server for its health (gRPC health protocol); exit code 0: serving");
  const auto options = std::make_shared<HealthOptions>();
  command->add_option("ADDRESS", options->address, "HOST:PORT of the server")->required();
  command->add_option("--service", options->service, "Full name of one service. Default: the whole server");
  AddDuration(*command, "--timeout", &options->timeout, "Longest time to wait for the answer",
              absl::Milliseconds(1));
  command->callback(
      [context, options] { context->action = [context, options] { return Health(*context, *options); }; });
}

}  // namespace adaptdl::cli
