#include "cli/client.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "cli/cluster/record.h"
#include "cli/output.h"
#include "cli/security.h"
#include "libs/rpc/retry_info.h"
#include "libs/rpc/status.h"

namespace adaptdl::cli {
namespace {

constexpr int kPageSize = 1000;
constexpr absl::Duration kLongestWait = absl::Seconds(90);
constexpr absl::Duration kShortestWait = absl::Milliseconds(100);

}  // namespace

std::string FindSupervisor(const Context& context) {
  if (!context.supervisor.empty()) return context.supervisor;
  const char* variable = std::getenv("ADAPTDL_SUPERVISOR_ADDRESS");
  if (variable != nullptr && *variable != '\0') return variable;
  const absl::StatusOr<ClusterRecord> record = ReadClusterRecord(HomeFolder());
  if (record.ok() && !record->supervisor.empty()) return record->supervisor;
  return "127.0.0.1:7100";
}

Client::Client(const Context& context) : Client(context, FindWay(context)) {}

Client::Way Client::FindWay(const Context& context) {
  if (!context.kubernetes.enabled) {
    const std::string text = FindSupervisor(context);
    const auto addresses = rpc::ParseEndpoints("--supervisor", text);
    if (!addresses.ok()) return {text, {text}, UsageError(addresses.status().message()), nullptr};
    return {text, *addresses, FindSecurity(context, text), nullptr};
  }
  absl::StatusOr<std::unique_ptr<SupervisorRoute>> route = SupervisorRoute::Open(context);
  // No call is made then.
  if (!route.ok()) return {"", {""}, route.status(), nullptr};
  return {"the cluster's supervisor", (*route)->addresses(), (*route)->security(), *std::move(route)};
}

Client::Client(const Context& context, Way way)
    : clock_(context.clock),
      address_(std::move(way.name)),
      route_(std::move(way.route)),
      call_timeout_(context.call_timeout),
      security_(way.security.status()),
      supervisors_(std::move(way.addresses), way.security.value_or(rpc::ClientSecurity())) {}

rpc::Endpoint Client::Connected() {
  rpc::Endpoint supervisor = supervisors_.current();
  rpc::AwaitConnection(supervisor.channel.get());
  return supervisor;
}

absl::Status Client::Reach() {
  if (!keeps_trying()) return absl::OkStatus();
  // Whatever it answers, it does.
  const absl::Status status = Call(&Admin::WhoAmI, v1::WhoAmIRequest()).status();
  return rpc::IsEndpointFailure(status) ? status : absl::OkStatus();
}

bool Client::WaitAsTold(const grpc::Status& status, absl::Duration* waited) const {
  if (status.error_code() != grpc::StatusCode::RESOURCE_EXHAUSTED) return false;
  const absl::Status error = rpc::FromGrpcStatus(status);
  const std::optional<absl::Duration> told = rpc::RetryDelayOf(error);
  if (!told.has_value() || *waited + *told > kLongestWait) return false;
  // Others were told the same: not all are to come back at once, nor the same one again and again.
  const absl::Duration delay = std::max(*told, kShortestWait) + *waited / 4;
  if (delay >= absl::Seconds(1)) {
    Note(absl::StrCat(error.message(), "; waiting ",
                      absl::FormatDuration(absl::Ceil(delay, absl::Seconds(1)))));
  }
  clock_->SleepFor(delay);
  *waited += delay;
  return true;
}

absl::Status Client::Explain(const grpc::Status& status) const {
  if (!security_.ok()) return security_;
  switch (rpc::CodeOf(status)) {
    case grpc::StatusCode::UNAVAILABLE:
      if (route_ != nullptr) {
        return absl::UnavailableError(
            absl::StrCat("none of the supervisor's pods answers as the leader; one "
                         "of them soon may (",
                         status.error_message(), ")"));
      }
      return absl::UnavailableError(absl::StrCat(
          "supervisor unreachable at ", address_,
          ": is the cluster up? \"adaptdl cluster up\" starts one here (", status.error_message(), ")"));
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return absl::DeadlineExceededError(absl::StrCat("supervisor at ", address_, " did not answer within ",
                                                      absl::FormatDuration(call_timeout_),
                                                      "; --call-timeout gives it longer"));
    case grpc::StatusCode::UNIMPLEMENTED:
      return absl::UnimplementedError(absl::StrCat(
          "the server at ", address_, " does not know this call: is it a supervisor, and of this ",
          "version? (", status.error_message(), ")"));
    default:
      return rpc::FromGrpcStatus(status);
  }
}

absl::StatusOr<v1::ListJobsResponse> ListAllJobs(Client& client, v1::ListJobsRequest request) {
  v1::ListJobsResponse all;
  request.set_page_size(kPageSize);
  do {
    absl::StatusOr<v1::ListJobsResponse> page = client.Call(&Jobs::ListJobs, request);
    if (!page.ok()) return page.status();
    request.set_page_token(page->next_page_token());
    all.mutable_jobs()->MergeFrom(page->jobs());
  } while (!request.page_token().empty());
  return all;
}

absl::StatusOr<v1::ListEventsResponse> ListAllEvents(Client& client, v1::ListEventsRequest request) {
  v1::ListEventsResponse all;
  request.set_page_size(kPageSize);
  do {
    absl::StatusOr<v1::ListEventsResponse> page = client.Call(&Jobs::ListEvents, request);
    if (!page.ok()) return page.status();
    request.set_page_token(page->next_page_token());
    all.mutable_events()->MergeFrom(page->events());
  } while (!request.page_token().empty());
  return all;
}

absl::StatusOr<v1::ListNodesResponse> ListAllNodes(Client& client) {
  v1::ListNodesResponse all;
  v1::ListNodesRequest request;
  request.set_page_size(kPageSize);
  do {
    absl::StatusOr<v1::ListNodesResponse> page = client.Call(&Nodes::ListNodes, request);
    if (!page.ok()) return page.status();
    request.set_page_token(page->next_page_token());
    all.mutable_nodes()->MergeFrom(page->nodes());
  } while (!request.page_token().empty());
  return all;
}

absl::StatusOr<v1::ListQuotasResponse> ListAllQuotas(Client& client) {
  v1::ListQuotasResponse all;
  v1::ListQuotasRequest request;
  request.set_page_size(kPageSize);
  do {
    absl::StatusOr<v1::ListQuotasResponse> page = client.Call(&Quotas::ListQuotas, request);
    if (!page.ok()) return page.status();
    request.set_page_token(page->next_page_token());
    all.mutable_quotas()->MergeFrom(page->quotas());
  } while (!request.page_token().empty());
  return all;
}

absl::StatusOr<v1::Job> GetJob(Client& client, const JobReference& job) {
  v1::GetJobRequest request;
  request.set_namespace_(job.name_space);
  request.set_name(job.name);
  absl::StatusOr<v1::GetJobResponse> response = client.Call(&Jobs::GetJob, request);
  if (!response.ok()) return response.status();
  return std::move(*response->mutable_job());
}

absl::StatusOr<v1::GetNodePoolsResponse> FindPools(Client& client) {
  absl::StatusOr<v1::GetNodePoolsResponse> pools = client.Call(&Pools::GetNodePools, {});
  if (absl::IsPermissionDenied(pools.status()) || absl::IsUnimplemented(pools.status()))
    return v1::GetNodePoolsResponse();
  return pools;
}

absl::StatusOr<v1::ListQuotasResponse> FindQuotas(Client& client) {
  absl::StatusOr<v1::ListQuotasResponse> quotas = ListAllQuotas(client);
  if (absl::IsPermissionDenied(quotas.status()) || absl::IsUnimplemented(quotas.status()))
    return v1::ListQuotasResponse();
  return quotas;
}

bool IsFinished(v1::JobPhase phase) {
  return phase == v1::JOB_PHASE_SUCCEEDED || phase == v1::JOB_PHASE_FAILED ||
         phase == v1::JOB_PHASE_CANCELLED;
}

int ExitCodeOf(v1::JobPhase phase) {
  if (phase == v1::JOB_PHASE_FAILED) return kExitJobFailed;
  if (phase == v1::JOB_PHASE_CANCELLED) return kExitJobCancelled;
  return kExitOk;
}

}  // namespace adaptdl::cli
