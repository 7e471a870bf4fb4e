#include <memory>

#include "CLI/App.hpp"
#include "absl/status/statusor.h"
#include "cli/client.h"
#include "cli/commands/commands.h"
#include "cli/output.h"
#include "cli/pool_table.h"
#include "cli/table.h"

namespace adaptdl::cli {
namespace {

constexpr int kMostEvents = 1000;

absl::StatusOr<int> List(const Context& context, bool events) {
  Client client(context);
  v1::GetNodePoolsRequest request;
  if (events) request.set_events(kMostEvents);
  const absl::StatusOr<v1::GetNodePoolsResponse> pools = client.Call(&Pools::GetNodePools, request);
  if (!pools.ok()) return pools.status();
  if (context.format != Format::kTable) {
    PrintDocument(context, ToJson(*pools));
  } else if (events) {
    if (pools->events().empty()) Note("no events of pools");
    if (!pools->events().empty()) Print(Render(PoolEventTable(*pools), context.colours));
  } else if (pools->pools().empty()) {
    Note(pools->has_report_time() ? "no pools" : "no pools: no autoscaler has reported yet");
  } else {
    Print(Render(PoolTable(*pools), context.colours));
    Print(PoolProblems(*pools));
  }
  return kExitOk;
}

}  // namespace

void AddPools(CLI::App& app, Context* context) {
  CLI::App* command = app.add_subcommand("pools", "List node pools, and what was decided about them");
  const auto events = std::make_shared<bool>(false);
  command->add_flag("--events", *events, "What was decided lately, the oldest first, instead of the pools");
  command->callback(
      [context, events] { context->action = [context, events] { return List(*context, *events); }; });
}

}  // namespace adaptdl::cli
