#include <memory>
#include <string>
#include <utility>

#include "CLI/App.hpp"
#include "absl/status/statusor.h"
#include "cli/client.h"
#include "cli/commands/commands.h"
#include "cli/explanation.h"
#include "cli/output.h"
#include "cli/pool_table.h"

namespace adaptdl::cli {
namespace {

// The part of the job that the question is about.
Json ExplanationDocument(const v1::Job& job, const v1::GetNodePoolsResponse& pools) {
  const Json whole = ToJson(job);
  const Json& status = whole["status"];
  Json document;
  document["namespace"] = whole["namespace"];
  document["name"] = whole["name"];
  for (const char* field : {"phase", "reason", "message", "allocation", "desiredAllocation",
                            "allocationReason", "allocationExplanation"}) {
    document[field] = status[field];
  }
  document["shortPools"] = Json::array();
  for (const ShortPool& pool : ShortPoolsOf(job, pools)) {
    Json entry;
    entry["pool"] = pool.pool;
    entry["condition"] = ToJson(pool.condition);
    document["shortPools"].push_back(std::move(entry));
  }
  return document;
}

absl::StatusOr<int> Explain(const Context& context, const std::string& name) {
  const absl::StatusOr<JobReference> reference = ParseJobReference(context, name);
  if (!reference.ok()) return reference.status();
  Client client(context);
  const absl::StatusOr<v1::Job> job = GetJob(client, *reference);
  if (!job.ok()) return job.status();
  absl::StatusOr<v1::GetNodePoolsResponse> pools = v1::GetNodePoolsResponse();
  if (WaitsForNodes(*job)) pools = FindPools(client);
  if (!pools.ok()) return pools.status();
  if (context.format == Format::kTable) {
    Print(ExplainJob(*job, *pools));
  } else {
    PrintDocument(context, ExplanationDocument(*job, *pools));
  }
  return kExitOk;
}

}  // namespace

void AddExplain(CLI::App& app, Context* context) {
  CLI::App* command = app.add_subcommand("explain", "Say why a job has the replicas that it has");
  const auto name = std::make_shared<std::string>();
  command->add_option("JOB", *name, "Job, as NAME or NAMESPACE/NAME")->required();
  command->callback(
      [context, name] { context->action = [context, name] { return Explain(*context, *name); }; });
}

}  // namespace adaptdl::cli
