#include "cli/timeline.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "cli/client.h"
#include "cli/commands/commands.h"
#include "cli/output.h"

namespace adaptdl::cli {
namespace {

Json RowsToJson(const std::vector<TimelineRow>& rows) {
  Json jobs = Json::array();
  const auto text = [](absl::Time time) {
    return absl::FormatTime(absl::RFC3339_full, time, absl::UTCTimeZone());
  };
  for (const TimelineRow& row : rows) {
    Json changes = Json::array();
    for (const TimelineRow::Change& change : row.changes) {
      changes.push_back({{"time", text(change.time)}, {"replicas", change.replicas}});
    }
    Json job = {{"name", row.name}, {"submitTime", text(row.begin)}};
    if (row.end != absl::InfiniteFuture()) job["completionTime"] = text(row.end);
    job["changes"] = changes;
    jobs.push_back(job);
  }
  return {{"jobs", jobs}};
}

// The jobs named, or all of the namespace.
absl::StatusOr<v1::ListJobsResponse> FindJobs(const Context& context, Client& client,
                                              const std::vector<std::string>& names) {
  if (names.empty()) {
    v1::ListJobsRequest request;
    request.set_namespace_(context.Namespace());
    return ListAllJobs(client, request);
  }
  v1::ListJobsResponse jobs;
  for (const std::string& name : names) {
    const absl::StatusOr<JobReference> reference = ParseJobReference(context, name);
    if (!reference.ok()) return reference.status();
    absl::StatusOr<v1::Job> job = GetJob(client, *reference);
    if (!job.ok()) return job.status();
    *jobs.add_jobs() = std::move(*job);
  }
  return jobs;
}

// From events, which every supervisor has.
absl::StatusOr<std::vector<TimelineRow>> RowsFromEvents(Client& client, const v1::ListJobsResponse& jobs) {
  v1::ListEventsResponse all;
  for (const v1::Job& job : jobs.jobs()) {
    v1::ListEventsRequest request;
    request.set_namespace_(job.namespace_());
    request.set_name(job.name());
    const absl::StatusOr<v1::ListEventsResponse> events = ListAllEvents(client, request);
    if (!events.ok()) return events.status();
    all.mutable_events()->MergeFrom(events->events());
  }
  return TimelineRows(jobs, all);
}

// UNIMPLEMENTED: the supervisor is older than histories.
absl::StatusOr<v1::ListTimelinesResponse> FindTimelines(Client& client, const std::string& name_space) {
  v1::ListTimelinesResponse all;
  v1::ListTimelinesRequest request;
  request.set_namespace_(name_space);
  request.set_page_size(1000);
  do {
    const absl::StatusOr<v1::ListTimelinesResponse> page = client.Call(&Histories::ListTimelines, request);
    if (!page.ok()) return page.status();
    request.set_page_token(page->next_page_token());
    all.mutable_timelines()->MergeFrom(page->timelines());
  } while (!request.page_token().empty());
  return all;
}

// The same of each of these jobs.
absl::StatusOr<v1::ListTimelinesResponse> FindTimelinesOf(Client& client, const v1::ListJobsResponse& jobs) {
  v1::ListTimelinesResponse all;
  for (const v1::Job& job : jobs.jobs()) {
    v1::GetJobHistoryRequest request;
    request.set_namespace_(job.namespace_());
    request.set_name(job.name());
    request.set_max_points(1);
    const absl::StatusOr<v1::GetJobHistoryResponse> history = client.Call(&Histories::GetJobHistory, request);
    if (!history.ok()) return history.status();
    v1::JobTimeline* timeline = all.add_timelines();
    timeline->set_name(job.name());
    *timeline->mutable_submit_time() = job.status().submit_time();
    if (job.status().has_completion_time()) {
      *timeline->mutable_completion_time() = job.status().completion_time();
    }
    *timeline->mutable_changes() = history->changes();
  }
  return all;
}

absl::StatusOr<std::vector<TimelineRow>> FindRows(const Context& context, Client& client,
                                                  const std::vector<std::string>& names) {
  absl::StatusOr<v1::ListTimelinesResponse> timelines;
  absl::StatusOr<v1::ListJobsResponse> jobs;
  if (names.empty()) {
    timelines = FindTimelines(client, context.Namespace());
  } else {
    jobs = FindJobs(context, client, names);
    if (!jobs.ok()) return jobs.status();
    timelines = FindTimelinesOf(client, *jobs);
  }
  if (timelines.ok()) return TimelineRows(*timelines);
  if (!absl::IsUnimplemented(timelines.status())) return timelines.status();
  if (names.empty()) jobs = FindJobs(context, client, names);
  if (!jobs.ok()) return jobs.status();
  return RowsFromEvents(client, *jobs);
}

absl::StatusOr<int> Timeline(const Context& context, const std::vector<std::string>& names) {
  Client client(context);
  const absl::StatusOr<std::vector<TimelineRow>> rows = FindRows(context, client, names);
  if (!rows.ok()) return rows.status();
  if (context.format != Format::kTable) {
    PrintDocument(context, RowsToJson(*rows));
  } else if (rows->empty()) {
    Note("no jobs");
  } else {
    Print(RenderTimeline(*rows, context.clock->Now(), context.width));
  }
  return kExitOk;
}

}  // namespace

void AddTimeline(CLI::App& app, Context* context) {
  CLI::App* command = app.add_subcommand("timeline", "Draw the number of replicas of jobs over time");
  const auto names = std::make_shared<std::vector<std::string>>();
  command->add_option("JOB", *names, "Jobs, as NAME or NAMESPACE/NAME. Default: all of the namespace");
  command->callback(
      [context, names] { context->action = [context, names] { return Timeline(*context, *names); }; });
}

}  // namespace adaptdl::cli
