#include <memory>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "CLI/Validators.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "cli/client.h"
#include "cli/commands/commands.h"
#include "cli/commands/wide_output.h"
#include "cli/job_order.h"
#include "cli/job_table.h"
#include "cli/moment.h"
#include "cli/output.h"
#include "cli/table.h"

namespace adaptdl::cli {
namespace {

struct LsOptions {
  bool all_namespaces = false;
  std::vector<std::string> phases;
  std::vector<std::string> labels;
  std::string name;
  std::string since;
  std::string sort;
  bool reverse = false;
  std::shared_ptr<const bool> wide;
};

absl::StatusOr<v1::JobPhase> ParsePhase(const std::string& text) {
  v1::JobPhase phase;
  if (v1::JobPhase_Parse(absl::StrCat("JOB_PHASE_", absl::AsciiStrToUpper(text)), &phase) &&
      phase != v1::JOB_PHASE_UNSPECIFIED) {
    return phase;
  }
  std::vector<std::string> names;
  for (int value = v1::JobPhase_MIN + 1; value <= v1::JobPhase_MAX; ++value) {
    names.push_back(absl::AsciiStrToLower(v1::JobPhase_Name(value).substr(std::string("JOB_PHASE_").size())));
  }
  return UsageError(absl::StrCat("--phase ", text, " is no phase; choose from ", absl::StrJoin(names, ", ")));
}

absl::StatusOr<int> List(const Context& context, const LsOptions& options) {
  v1::ListJobsRequest request;
  request.set_namespace_(options.all_namespaces ? "*" : context.Namespace());
  for (const std::string& text : options.phases) {
    const absl::StatusOr<v1::JobPhase> phase = ParsePhase(text);
    if (!phase.ok()) return phase.status();
    request.add_phases(*phase);
  }
  for (const std::string& text : options.labels) {
    const auto label = ParseKeyValue("-l", text);
    if (!label.ok()) return label.status();
    (*request.mutable_labels())[label->first] = label->second;
  }
  const absl::Time now = context.clock->Now();
  const absl::StatusOr<absl::Time> since =
      options.since.empty() ? absl::InfinitePast() : ParseMoment("--since", options.since, now);
  if (!since.ok()) return since.status();
  Client client(context);
  absl::StatusOr<v1::ListJobsResponse> response = ListAllJobs(client, request);
  if (!response.ok()) return response.status();
  KeepSince(*since, response->mutable_jobs());
  if (!options.name.empty()) KeepNamed(options.name, response->mutable_jobs());
  SortJobs(options.sort, options.reverse, now, response->mutable_jobs());
  if (context.format != Format::kTable) {
    PrintDocument(context, ToJson(*response));
  } else if (response->jobs().empty()) {
    Note("no jobs");
  } else {
    const Table table =
        JobTable(*response, {.with_namespace = options.all_namespaces, .wide = *options.wide}, now);
    Print(Render(table, context.colours, context.table_width));
  }
  return kExitOk;
}

}  // namespace

void AddLs(CLI::App& app, Context* context) {
  CLI::App* command = app.add_subcommand("ls", "List jobs");
  const auto options = std::make_shared<LsOptions>();
  command->add_flag("-A,--all-namespaces", options->all_namespaces, "Jobs of all namespaces");
  command->add_option("--phase", options->phases, "Only jobs in these phases (running, pending, ...)")
      ->delimiter(',');
  command->add_option("-l,--label", options->labels, "Only jobs with this label, KEY=VALUE; may be repeated");
  command->add_option("--name", options->name, "Only jobs whose name fits this pattern, such as 'train-*'")
      ->type_name("GLOB");
  command
      ->add_option("--since", options->since,
                   absl::StrCat("Only jobs that have not ended before: ", kMomentHelp))
      ->type_name("TIME");
  options->sort = SortKeys().front();
  command
      ->add_option("--sort", options->sort,
                   "What the list is sorted by: figures from the largest on, all else ascending")
      ->check(CLI::IsMember(SortKeys()))
      ->capture_default_str();
  command->add_flag("--reverse", options->reverse, "The other way round");
  options->wide = AddWideOutput(command, context, "how jobs train and where");
  command->callback(
      [context, options] { context->action = [context, options] { return List(*context, *options); }; });
}

}  // namespace adaptdl::cli
