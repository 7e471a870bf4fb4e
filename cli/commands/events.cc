#include <memory>
#include <string>

#include "CLI/App.hpp"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/client.h"
#include "cli/commands/commands.h"
#include "cli/job_table.h"
#include "cli/output.h"
#include "cli/table.h"

namespace adaptdl::cli {
namespace {

constexpr absl::Duration kPollPeriod = absl::Milliseconds(500);

struct EventsOptions {
  std::string job;
  bool follow = false;
};

void PrintFollowed(const Context& context, const v1::ListEventsResponse& events) {
  for (const v1::Event& event : events.events()) {
    if (context.format != Format::kTable) {
      PrintStreamed(context, ToJson(event));
      continue;
    }
    v1::ListEventsResponse one;
    *one.add_events() = event;
    // A row by itself: columns can't be aligned with what is still to come.
    const std::string rendered = Render(EventTable(one, /*with_job=*/true), context.colours);
    Print(rendered.substr(rendered.find('\n') + 1));
  }
}

// Prints events as they come; with a job, until it has finished.
absl::StatusOr<int> Follow(const Context& context, Client& client, v1::ListEventsRequest request) {
  while (true) {
    bool finished = false;
    if (!request.name().empty()) {
      const absl::StatusOr<v1::Job> job = GetJob(client, {request.namespace_(), request.name()});
      if (!job.ok()) return job.status();
      finished = IsFinished(job->status().phase());
    }
    const absl::StatusOr<v1::ListEventsResponse> events = ListAllEvents(client, request);
    if (!events.ok()) return events.status();
    PrintFollowed(context, *events);
    if (!events->events().empty()) request.set_after_id(events->events().rbegin()->id());
    if (finished) return kExitOk;
    context.clock->SleepFor(kPollPeriod);
  }
}

absl::StatusOr<int> Events(const Context& context, const EventsOptions& options) {
  v1::ListEventsRequest request;
  request.set_namespace_(context.Namespace());
  if (!options.job.empty()) {
    const absl::StatusOr<JobReference> reference = ParseJobReference(context, options.job);
    if (!reference.ok()) return reference.status();
    request.set_namespace_(reference->name_space);
    request.set_name(reference->name);
  }
  Client client(context);
  if (options.follow) return Follow(context, client, request);
  const absl::StatusOr<v1::ListEventsResponse> events = ListAllEvents(client, request);
  if (!events.ok()) return events.status();
  if (context.format != Format::kTable) {
    PrintDocument(context, ToJson(*events));
  } else if (events->events().empty()) {
    Note("no events");
  } else {
    Print(Render(EventTable(*events, options.job.empty()), context.colours));
  }
  return kExitOk;
}

}  // namespace

void AddEvents(CLI::App& app, Context* context) {
  CLI::App* command = app.add_subcommand("events", "List what happened to jobs, when and why");
  const auto options = std::make_shared<EventsOptions>();
  command->add_option("JOB", options->job, "Job, as NAME or NAMESPACE/NAME. Default: all of the namespace");
  command->add_flag("-f,--follow", options->follow, "Go on, with a job until it has finished");
  command->callback(
      [context, options] { context->action = [context, options] { return Events(*context, *options); }; });
}

}  // namespace adaptdl::cli
