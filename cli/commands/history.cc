#include <map>
#include <memory>
#include <string>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "CLI/Validators.hpp"
#include "absl/status/statusor.h"
#include "cli/client.h"
#include "cli/commands/commands.h"
#include "cli/history_table.h"
#include "cli/output.h"
#include "cli/table.h"

namespace adaptdl::cli {
namespace {

// As many as a screen holds; for programs, as many as there are.
constexpr int kRowsOfTable = 40;
constexpr int kAllPoints = 2000;

struct HistoryCommandOptions {
  std::string job;
  int points = 0;
  bool csv = false;
};

absl::StatusOr<int> ShowHistory(const Context& context, const HistoryCommandOptions& options) {
  const absl::StatusOr<JobReference> job = ParseJobReference(context, options.job);
  if (!job.ok()) return job.status();
  const bool for_people = context.format == Format::kTable && !options.csv;
  v1::GetJobHistoryRequest request;
  request.set_namespace_(job->name_space);
  request.set_name(job->name);
  request.set_max_points(options.points > 0 ? options.points : for_people ? kRowsOfTable : kAllPoints);
  Client client(context);
  const absl::StatusOr<v1::GetJobHistoryResponse> history = client.Call(&Histories::GetJobHistory, request);
  if (absl::IsUnimplemented(history.status())) {
    return absl::UnimplementedError(
        "the supervisor is of a version that keeps no histories of jobs; update it");
  }
  if (!history.ok()) return history.status();
  if (options.csv) {
    Print(HistoryCsv(*history));
  } else if (!for_people) {
    PrintDocument(context, ToJson(*history));
  } else if (history->points().empty()) {
    Note("nothing is known yet");
  } else {
    Print(Render(HistoryTable(*history), context.colours));
  }
  return kExitOk;
}

}  // namespace

void AddHistory(CLI::App& app, Context* context) {
  CLI::App* command =
      app.add_subcommand("history", "Show replicas, batch size, goodput, loss and more of a job over time");
  const auto options = std::make_shared<HistoryCommandOptions>();
  command->add_option("JOB", options->job, "The job, as NAME or NAMESPACE/NAME")->required();
  command
      ->add_option(
          "--points", options->points,
          "At most so many, each a mean over its time. Default: 40 in a table, else all that are kept")
      ->check(CLI::Range(1, kAllPoints));
  // It knows a form of its own, beside those of all commands.
  const std::map<std::string, Format> formats = {
      {"table", Format::kTable}, {"json", Format::kJson}, {"yaml", Format::kYaml}, {"csv", Format::kTable}};
  command
      ->add_option_function<std::string>(
          "-o,--output",
          [context, options, formats](const std::string& name) {
            context->format = formats.at(name);
            options->csv = name == "csv";
          },
          "Output: table, json, yaml or csv")
      ->check(CLI::IsMember(formats))
      ->type_name("FORMAT");
  command->callback([context, options] {
    context->action = [context, options] { return ShowHistory(*context, *options); };
  });
}

}  // namespace adaptdl::cli
