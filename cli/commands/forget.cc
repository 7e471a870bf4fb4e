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

absl::StatusOr<int> Forget(const Context& context, const std::string& node) {
  v1::RemoveNodeRequest request;
  request.set_request_id(RandomHex(16));
  request.set_node_id(node);
  Client client(context);
  const absl::StatusOr<v1::RemoveNodeResponse> response = client.Call(&Nodes::RemoveNode, request);
  if (!response.ok()) return response.status();
  Print(Printable(absl::StrCat("node ", node, " is forgotten")) + "\n");
  return kExitOk;
}

}  // namespace

void AddForget(CLI::App& app, Context* context) {
  CLI::App* command = app.add_subcommand("forget", "Forget a node that is lost, or drained and empty");
  const auto node = std::make_shared<std::string>();
  command->add_option("NODE", *node, "Node id")->required();
  command->callback(
      [context, node] { context->action = [context, node] { return Forget(*context, *node); }; });
}

}  // namespace adaptdl::cli
