#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/statusor.h"
#include "cli/client.h"
#include "cli/commands/commands.h"
#include "cli/description.h"
#include "cli/divergence.h"
#include "cli/format.h"
#include "cli/output.h"
#include "cli/pool_table.h"
#include "cli/standstill.h"
#include "libs/messages/proto_time.h"

namespace adaptdl::cli {
namespace {

constexpr int kEventsShown = 20;

// How far back it is looked when it took its last step.
constexpr absl::Duration kLookBack = absl::Minutes(15);

absl::Duration FindStandstill(Client& client, const v1::Job& job, absl::Time now) {
  if (!Trains(job.status().phase()) || !job.status().has_progress()) return absl::ZeroDuration();
  v1::GetJobHistoryRequest request;
  request.set_namespace_(job.namespace_());
  request.set_name(job.name());
  *request.mutable_after() = messages::ToProto(now - kLookBack);
  const absl::StatusOr<v1::GetJobHistoryResponse> history =
      client.Call(&v1::HistoryService::Stub::GetJobHistory, request);
  // Supervisors of before keep none.
  return history.ok() ? StandstillOf(job.status(), *history, now) : absl::ZeroDuration();
}

std::optional<int64_t> FindLastSoundStep(Client& client, const v1::Job& job) {
  if (!HasDiverged(job.status())) return std::nullopt;
  v1::GetJobHistoryRequest request;
  request.set_namespace_(job.namespace_());
  request.set_name(job.name());
  const absl::StatusOr<v1::GetJobHistoryResponse> history =
      client.Call(&v1::HistoryService::Stub::GetJobHistory, request);
  return history.ok() ? LastSoundStep(*history) : std::nullopt;
}

absl::StatusOr<int> Describe(const Context& context, const std::string& name) {
  const absl::StatusOr<JobReference> reference = ParseJobReference(context, name);
  if (!reference.ok()) return reference.status();
  Client client(context);
  const absl::StatusOr<v1::Job> job = GetJob(client, *reference);
  if (!job.ok()) return job.status();
  v1::ListEventsRequest request;
  request.set_namespace_(reference->name_space);
  request.set_name(reference->name);
  absl::StatusOr<v1::ListEventsResponse> events = ListAllEvents(client, request);
  if (!events.ok()) return events.status();
  const int surplus = events->events_size() - kEventsShown;
  if (surplus > 0) events->mutable_events()->DeleteSubrange(0, surplus);
  if (context.format == Format::kTable) {
    JobSurroundings around;
    if (job->status().has_cost() || WaitsForNodes(*job)) {
      absl::StatusOr<v1::GetNodePoolsResponse> pools = FindPools(client);
      if (!pools.ok()) return pools.status();
      around.pools = *std::move(pools);
    }
    if (!IsFinished(job->status().phase())) {
      absl::StatusOr<v1::ListQuotasResponse> quotas = FindQuotas(client);
      if (!quotas.ok()) return quotas.status();
      around.quotas = *std::move(quotas);
    }
    around.events = *std::move(events);
    around.standstill = FindStandstill(client, *job, context.clock->Now());
    around.last_sound_step = FindLastSoundStep(client, *job);
    Print(DescribeJob(*job, around, context.clock->Now(), context.colours));
  } else {
    Json document;
    document["job"] = ToJson(*job);
    document["events"] = ToJson(*events)["events"];
    PrintDocument(context, document);
  }
  return kExitOk;
}

}  // namespace

void AddDescribe(CLI::App& app, Context* context) {
  CLI::App* command = app.add_subcommand("describe", "Show all about a job");
  const auto name = std::make_shared<std::string>();
  command->add_option("JOB", *name, "Job, as NAME or NAMESPACE/NAME")->required();
  command->callback(
      [context, name] { context->action = [context, name] { return Describe(*context, *name); }; });
}

}  // namespace adaptdl::cli
