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
#include "cli/cost_table.h"
#include "cli/output.h"
#include "cli/table.h"
#include "libs/messages/proto_time.h"

namespace adaptdl::cli {
namespace {

struct CostOptions {
  std::string by = "job";
  absl::Duration since = absl::ZeroDuration();
  bool all_namespaces = false;
  bool csv = false;
};

CostsBy GroupingOf(const std::string& by) {
  if (by == "namespace") return CostsBy::kNamespace;
  return by == "pool" ? CostsBy::kPool : CostsBy::kJob;
}

absl::StatusOr<int> Show(const Context& context, const CostOptions& options) {
  v1::GetCostsRequest request;
  request.set_namespace_(options.all_namespaces ? "*" : context.Namespace());
  if (options.since > absl::ZeroDuration())
    *request.mutable_start_time() = messages::ToProto(context.clock->Now() - options.since);
  Client client(context);
  const absl::StatusOr<v1::GetCostsResponse> costs = client.Call(&Pools::GetCosts, request);
  if (!costs.ok()) return costs.status();
  const CostSummary summary = Summarize(*costs, GroupingOf(options.by));
  if (options.csv) {
    Print(CostCsv(summary));
  } else if (context.format != Format::kTable) {
    PrintDocument(context, CostDocument(summary, *costs));
  } else if (costs->lines().empty()) {
    Note("no costs are known");
  } else {
    Print(Render(CostTable(summary), context.colours));
  }
  return kExitOk;
}

}  // namespace

void AddCost(CLI::App& app, Context* context) {
  CLI::App* command = app.add_subcommand("cost", "Show what nodes have cost, and who used them");
  const auto options = std::make_shared<CostOptions>();
  command->add_option("--by", options->by, "One line for each job, namespace or pool")
      ->check(CLI::IsMember({"job", "namespace", "pool"}))
      ->capture_default_str();
  AddDuration(*command, "--since", &options->since,
              "Only what was used so lately, such as 24h; from the beginning of an hour on. Default: all "
              "that is known",
              absl::Seconds(1));
  command->add_flag("-A,--all-namespaces", options->all_namespaces,
                    "Of all namespaces, and what nobody used; for operators and admins");
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
  command->callback(
      [context, options] { context->action = [context, options] { return Show(*context, *options); }; });
}

}  // namespace adaptdl::cli
