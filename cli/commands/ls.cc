#include <memory>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/client.h"
#include "cli/commands/commands.h"
#include "cli/job_table.h"
#include "cli/output.h"
#include "cli/table.h"

namespace adaptdl::cli {
namespace {

struct LsOptions {
  bool all_namespaces = false;
  std::vector<std::string> phases;
  std::vector<std::string> labels;
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
  Client client(context);
  absl::StatusOr<v1::ListJobsResponse> response = ListAllJobs(client, request);
  if (!response.ok()) return response.status();
  if (context.format != Format::kTable) {
    PrintDocument(context, ToJson(*response));
  } else if (response->jobs().empty()) {
    Note("no jobs");
  } else {
    Print(Render(JobTable(*response, options.all_namespaces, context.clock->Now()), context.colours));
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
  command->callback(
      [context, options] { context->action = [context, options] { return List(*context, *options); }; });
}

}  // namespace adaptdl::cli
