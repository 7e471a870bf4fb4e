#include <algorithm>
#include <memory>
#include <string>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "CLI/Validators.hpp"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "cli/client.h"
#include "cli/commands/commands.h"
#include "cli/follow.h"
#include "cli/format.h"
#include "cli/job_table.h"
#include "cli/moment.h"
#include "cli/output.h"
#include "cli/table.h"
#include "libs/rpc/endpoints.h"

namespace adaptdl::cli {
namespace {

constexpr absl::Duration kPollPeriod = absl::Milliseconds(500);

struct EventsOptions {
  std::string job;
  bool follow = false;
  std::string since;
  std::string type;
};

// Which of a job's events are wanted; those that the supervisor can't choose.
struct EventFilter {
  absl::Time since = absl::InfinitePast();
  v1::EventType type = v1::EVENT_TYPE_UNSPECIFIED;

  void Apply(v1::ListEventsResponse* events) const {
    auto& all = *events->mutable_events();
    const auto unwanted = [&](const v1::Event& event) {
      return ToTime(event.time()) < since || (type != v1::EVENT_TYPE_UNSPECIFIED && event.type() != type);
    };
    all.erase(std::remove_if(all.begin(), all.end(), unwanted), all.end());
  }
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

// One look: prints what is new, and says whether the job has finished.
absl::StatusOr<bool> LookAgain(const Context& context, Client& client, const EventFilter& filter,
                               v1::ListEventsRequest* request) {
  bool finished = false;
  if (!request->name().empty()) {
    const absl::StatusOr<v1::Job> job = GetJob(client, {request->namespace_(), request->name()});
    if (!job.ok()) return job.status();
    finished = IsFinished(job->status().phase());
  }
  absl::StatusOr<v1::ListEventsResponse> events = ListAllEvents(client, *request);
  if (!events.ok()) return events.status();
  if (!events->events().empty()) request->set_after_id(events->events().rbegin()->id());
  filter.Apply(&*events);
  PrintFollowed(context, *events);
  return finished;
}

// Prints events as they come; with a job, until it has finished. A supervisor that was there may go away for a while.
absl::StatusOr<int> Follow(const Context& context, Client& client, const EventFilter& filter,
                           v1::ListEventsRequest request) {
  Reconnector reconnector(*context.clock);
  bool was_heard = false;
  while (true) {
    const absl::StatusOr<bool> finished = LookAgain(context, client, filter, &request);
    if (finished.ok()) {
      if (*finished) return kExitOk;
      was_heard = true;
      reconnector.Heard();
      context.clock->SleepFor(kPollPeriod);
    } else if (!was_heard || !rpc::IsEndpointFailure(finished.status()) || !reconnector.WaitToRetry()) {
      return finished.status();
    }
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
  EventFilter filter;
  if (!options.since.empty()) {
    const absl::StatusOr<absl::Time> since = ParseMoment("--since", options.since, context.clock->Now());
    if (!since.ok()) return since.status();
    filter.since = *since;
  }
  if (!options.type.empty()) {
    filter.type = options.type == "warning" ? v1::EVENT_TYPE_WARNING : v1::EVENT_TYPE_NORMAL;
  }
  Client client(context);
  if (options.follow) return Follow(context, client, filter, request);
  absl::StatusOr<v1::ListEventsResponse> events = ListAllEvents(client, request);
  if (!events.ok()) return events.status();
  filter.Apply(&*events);
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
  command->add_option("--since", options->since, absl::StrCat("Only what happened since: ", kMomentHelp))
      ->type_name("TIME");
  command->add_option("--type", options->type, "Only events of this type")
      ->check(CLI::IsMember({"normal", "warning"}));
  command->callback(
      [context, options] { context->action = [context, options] { return Events(*context, *options); }; });
}

}  // namespace adaptdl::cli
