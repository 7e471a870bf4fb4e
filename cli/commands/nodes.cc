#include "CLI/App.hpp"
#include "absl/status/statusor.h"
#include "cli/client.h"
#include "cli/commands/commands.h"
#include "cli/commands/wide_output.h"
#include "cli/job_table.h"
#include "cli/output.h"
#include "cli/table.h"

namespace adaptdl::cli {

void AddNodes(CLI::App& app, Context* context) {
  CLI::App* command = app.add_subcommand("nodes", "List nodes");
  const auto wide = AddWideOutput(command, context, "how much of each machine is in use");
  command->callback([context, wide] {
    context->action = [context, wide]() -> absl::StatusOr<int> {
      Client client(*context);
      const absl::StatusOr<v1::ListNodesResponse> nodes = ListAllNodes(client);
      if (!nodes.ok()) return nodes.status();
      if (context->format != Format::kTable) {
        PrintDocument(*context, ToJson(*nodes));
      } else if (nodes->nodes().empty()) {
        Note("no nodes");
      } else {
        Print(Render(NodeTable(*nodes, *wide, context->clock->Now()), context->colours));
        Print(NodeProblems(*nodes));
      }
      return kExitOk;
    };
  });
}

}  // namespace adaptdl::cli
