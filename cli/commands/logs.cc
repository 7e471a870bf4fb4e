#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "cli/attempts.h"
#include "cli/client.h"
#include "cli/commands/commands.h"
#include "cli/commands/log_printer.h"
#include "cli/follow.h"
#include "cli/format.h"
#include "cli/moment.h"
#include "cli/output.h"
#include "libs/messages/proto_time.h"

namespace adaptdl::cli {
namespace {

struct LogsOptions {
  std::string job;
  bool follow = false;
  int rank = -1;
  int64_t group = 0;
  int attempt = 0;
  int tail = 0;
  bool timestamps = false;
  bool all_ranks = false;
  std::string since;
  std::string pattern;
};

// Nothing printed is easily taken for something that is wrong.
std::string WhyNothing(const v1::Job& job, const LogsOptions& options) {
  const bool chosen = options.rank >= 0 || options.group > 0 || options.attempt > 0 ||
                      !options.since.empty() || !options.pattern.empty();
  const std::string name = Printable(absl::StrCat(job.namespace_(), "/", job.name()));
  if (chosen) return absl::StrCat("note: no line of ", name, " is among what you asked for");
  const std::string message =
      job.status().message().empty() ? "" : absl::StrCat(": ", Printable(job.status().message()));
  return absl::StrCat("note: ", name, ", which is ", StatusText(job.status()), message,
                      ", has written nothing");
}

absl::Status CheckAttempt(Client& client, const JobReference& job, int attempt) {
  if (attempt == 0) return absl::OkStatus();
  const absl::StatusOr<std::vector<Attempt>> attempts = FindAttempts(client, job);
  if (!attempts.ok()) return attempts.status();
  const int newest = attempts->empty() ? 0 : attempts->back().number;
  if (attempt <= newest) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--attempt ", attempt, ": the newest attempt at job ",
                                                 Printable(job.name), " is ", newest));
}

absl::StatusOr<int> Logs(const Context& context, const LogsOptions& options) {
  const absl::StatusOr<JobReference> reference = ParseJobReference(context, options.job);
  if (!reference.ok()) return reference.status();
  const absl::StatusOr<absl::Time> since = options.since.empty()
                                               ? absl::InfinitePast()
                                               : ParseMoment("--since", options.since, context.clock->Now());
  if (!since.ok()) return since.status();
  Client client(context);
  // Unknown jobs fail here, with a deadline, before the stream.
  const absl::StatusOr<v1::Job> job = GetJob(client, *reference);
  if (!job.ok()) return job.status();
  if (const absl::Status status = CheckAttempt(client, *reference, options.attempt); !status.ok())
    return status;
  v1::StreamLogsRequest request;
  request.set_namespace_(reference->name_space);
  request.set_name(reference->name);
  request.set_follow(options.follow);
  request.set_group(options.group);
  request.set_tail_lines(options.tail);
  request.set_pattern(options.pattern);
  if (*since != absl::InfinitePast()) *request.mutable_since() = messages::ToProto(*since);
  if (options.rank >= 0) request.set_rank(options.rank);
  LogPrinter printer(context,
                     {.ranks = options.all_ranks || (options.rank < 0 && job->spec().max_replicas() != 1),
                      .timestamps = options.timestamps,
                      .attempt = options.attempt});
  // It may take long.
  if (options.follow && job->status().phase() == v1::JOB_PHASE_PENDING && job->status().group() == 0)
    Note(WhyNothing(*job, {}));
  const absl::Status status = printer.PrintAll(client, request);
  if (!status.ok()) return status;
  if (!printer.printed() && !options.follow) Note(WhyNothing(*job, options));
  return kExitOk;
}

}  // namespace

void AddLogs(CLI::App& app, Context* context) {
  CLI::App* command = app.add_subcommand("logs", "Print what a job's replicas wrote");
  const auto options = std::make_shared<LogsOptions>();
  command->add_option("JOB", options->job, "Job, as NAME or NAMESPACE/NAME")->required();
  command->add_flag("-f,--follow", options->follow, "Go on until the job has finished");
  CLI::Option* rank =
      command->add_option("--rank", options->rank, "Only this rank")->check(CLI::NonNegativeNumber);
  command
      ->add_flag(
          "--all-ranks", options->all_ranks,
          "Of all ranks, which is the default, with the rank before each line also if there can be only one")
      ->excludes(rank);
  CLI::Option* group =
      command->add_option("--group", options->group, "Only this group")->check(CLI::PositiveNumber);
  command
      ->add_option("--attempt", options->attempt,
                   "Only this attempt: the first is 1, and each start of all replicas begins another one")
      ->excludes(group)
      ->check(CLI::PositiveNumber);
  command->add_option("--tail", options->tail, "Only the last so many lines of each replica")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--since", options->since,
                   absl::StrCat("Only lines that were written since, by the nodes' clocks: ", kMomentHelp))
      ->type_name("TIME");
  command
      ->add_option("--grep", options->pattern,
                   "Only lines in which this regular expression (of RE2) occurs; --tail counts those")
      ->type_name("PATTERN");
  command->add_flag("--timestamps", options->timestamps, "The time of each line before it");
  command->callback(
      [context, options] { context->action = [context, options] { return Logs(*context, *options); }; });
}

}  // namespace adaptdl::cli
