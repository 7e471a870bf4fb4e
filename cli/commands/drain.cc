#include <memory>
#include <string>

#include "CLI/App.hpp"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "cli/client.h"
#include "cli/commands/commands.h"
#include "cli/format.h"
#include "cli/output.h"
#include "libs/base/random_id.h"

namespace adaptdl::cli {
namespace {

struct DrainOptions {
  std::string node;
  std::string reason = "drained by hand";
};

absl::StatusOr<int> Drain(const Context& context, const DrainOptions& options) {
  v1::DrainNodeRequest request;
  request.set_request_id(RandomHex(16));
  request.set_node_id(options.node);
  request.set_reason(options.reason);
  Client client(context);
  const absl::StatusOr<v1::DrainNodeResponse> response = client.Call(&Nodes::DrainNode, request);
  if (!response.ok()) return response.status();
  if (context.format != Format::kTable) {
    PrintDocument(context, ToJson(response->node()));
  } else {
    Print(Printable(absl::StrCat("node ", options.node, " is draining, ",
                                 response->node().status().replicas(), " replicas on it")) +
          "\n");
  }
  return kExitOk;
}

}  // namespace

void AddDrain(CLI::App& app, Context* context) {
  CLI::App* command =
      app.add_subcommand("drain", "Take nothing new on a node and move its replicas elsewhere");
  const auto options = std::make_shared<DrainOptions>();
  command->add_option("NODE", options->node, "Node id")->required();
  command->add_option("--reason", options->reason, "Why, for people");
  command->callback(
      [context, options] { context->action = [context, options] { return Drain(*context, *options); }; });
}

}  // namespace adaptdl::cli
