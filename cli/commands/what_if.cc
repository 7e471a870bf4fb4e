#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "cli/client.h"
#include "cli/commands/commands.h"
#include "cli/history.h"
#include "cli/output.h"
#include "cli/what_if_table.h"
#include "libs/base/file.h"
#include "simulator/history/what_if.h"

namespace adaptdl::cli {
namespace {

struct WhatIfFlags {
  std::vector<std::string> added;
  std::vector<std::string> removed;
  std::string policy;
  std::string present_policy = "goodput";
  std::vector<std::string> prices;
  std::vector<std::string> speeds;
  std::string since;
  std::string history;
  std::string save_history;

  bool changes_anything() const { return !added.empty() || !removed.empty() || !policy.empty(); }
};

// "7d", or a time span as everywhere.
absl::StatusOr<absl::Duration> ParseSince(const std::string& text) {
  absl::string_view days = text;
  int count = 0;
  if (absl::ConsumeSuffix(&days, "d") && absl::SimpleAtoi(days, &count) && count > 0) {
    return absl::Hours(24) * count;
  }
  absl::Duration span;
  if (absl::ParseDuration(text, &span) && span > absl::ZeroDuration() && span != absl::InfiniteDuration()) {
    return span;
  }
  return UsageError(absl::StrCat("--since: \"", text, "\" is no time span; write one like 7d, 12h or 30m"));
}

absl::StatusOr<std::map<std::string, double>> ParseByType(const std::string& flag,
                                                          const std::vector<std::string>& texts) {
  std::map<std::string, double> values;
  for (const std::string& text : texts) {
    const auto pair = ParseKeyValue(flag, text);
    if (!pair.ok()) return pair.status();
    double value = 0;
    if (!absl::SimpleAtod(pair->second, &value)) {
      return UsageError(absl::StrCat(flag, " ", text, ": \"", pair->second, "\" is no number"));
    }
    values[pair->first] = value;
  }
  return values;
}

absl::StatusOr<simulator::History> FetchHistory(const Context& context, const std::string& since) {
  const absl::Time now = context.clock->Now();
  absl::Time begin = absl::InfinitePast();
  if (!since.empty()) {
    const absl::StatusOr<absl::Duration> span = ParseSince(since);
    if (!span.ok()) return span.status();
    begin = now - *span;
  }
  Client client(context);
  v1::ListJobsRequest request;
  // Jobs of all namespaces share the cluster.
  request.set_namespace_(context.name_space.empty() ? "*" : context.name_space);
  const absl::StatusOr<v1::ListJobsResponse> jobs = ListAllJobs(client, request);
  if (!jobs.ok()) return jobs.status();
  const absl::StatusOr<v1::ListNodesResponse> nodes = ListAllNodes(client);
  if (!nodes.ok()) return nodes.status();
  std::set<std::string> name_spaces;
  for (const v1::Job& job : jobs->jobs()) name_spaces.insert(job.namespace_());
  v1::ListEventsResponse events;
  for (const std::string& name_space : name_spaces) {
    v1::ListEventsRequest one;
    one.set_namespace_(name_space);
    const absl::StatusOr<v1::ListEventsResponse> page = ListAllEvents(client, one);
    if (!page.ok()) return page.status();
    events.mutable_events()->MergeFrom(page->events());
  }
  return ToHistory(*jobs, events, *nodes, begin, now);
}

absl::StatusOr<simulator::History> GetHistory(const Context& context, const WhatIfFlags& flags) {
  if (flags.history.empty()) return FetchHistory(context, flags.since);
  const absl::StatusOr<std::string> text = ReadWholeFile(flags.history);
  if (!text.ok()) return text.status();
  return simulator::ParseHistory(*text);
}

absl::StatusOr<int> WhatIf(const Context& context, const WhatIfFlags& flags) {
  if (!flags.changes_anything() && flags.save_history.empty()) {
    return UsageError("say what is to change: --add-nodes, --remove-nodes or --policy");
  }
  const auto prices = ParseByType("--price", flags.prices);
  if (!prices.ok()) return prices.status();
  const auto speeds = ParseByType("--speed", flags.speeds);
  if (!speeds.ok()) return speeds.status();
  const absl::StatusOr<simulator::History> history = GetHistory(context, flags);
  if (!history.ok()) return history.status();
  if (!flags.save_history.empty()) {
    const absl::Status saved = WriteFileAtomically(flags.save_history, simulator::ToJson(*history));
    if (!saved.ok()) return saved;
    Note(absl::StrCat("wrote ", history->jobs.size(), " jobs to ", flags.save_history));
    if (!flags.changes_anything()) return kExitOk;
  }
  simulator::WhatIfOptions options;
  options.policy = flags.present_policy;
  options.policy_after = flags.policy;
  options.added = flags.added;
  options.removed = flags.removed;
  options.prices = *prices;
  options.speeds = *speeds;
  const absl::StatusOr<simulator::WhatIfReport> report = simulator::WhatIf(*history, options);
  if (absl::IsInvalidArgument(report.status())) return UsageError(report.status().message());
  if (!report.ok()) return report.status();
  if (context.format != Format::kTable) {
    PrintDocument(context, WhatIfDocument(*report));
  } else {
    Print(RenderWhatIf(*report, context.colours));
    for (const std::string& note : report->notes) Note(absl::StrCat("note: ", note));
  }
  return kExitOk;
}

}  // namespace

void AddWhatIf(CLI::App& app, Context* context) {
  CLI::App* command = app.add_subcommand("what-if",
                                         "Replay the cluster's recorded jobs on other nodes or under another "
                                         "policy: waits, completion times, cost");
  const auto flags = std::make_shared<WhatIfFlags>();
  command
      ->add_option("--add-nodes", flags->added,
                   "Nodes to add, as NODESxTYPExGPUS: 4xA100x8; without GPUs, as NODESxcpuxCORES. May be "
                   "repeated")
      ->type_name("NODES");
  command->add_option("--remove-nodes", flags->removed, "Nodes to take away: the same, or a node's name")
      ->type_name("NODES");
  command->add_option("--policy", flags->policy, "Allocation policy to try. Default: --present-policy")
      ->type_name("NAME");
  command
      ->add_option("--present-policy", flags->present_policy, "The policy that the cluster's allocator runs")
      ->type_name("NAME")
      ->capture_default_str();
  command
      ->add_option("--price", flags->prices,
                   "Price of a node-hour by GPU type, as A100=32.8. May be repeated. Default: hours only")
      ->type_name("TYPE=PRICE");
  command
      ->add_option(
          "--speed", flags->speeds,
          "Speed of one GPU by type, in any unit, for types that no job has measured, as A100=2.5. May "
          "be repeated. Default: 1")
      ->type_name("TYPE=FACTOR");
  command->add_option("--since", flags->since, "Only jobs submitted in the last so much time. Default: all")
      ->type_name("TIME");
  command
      ->add_option("--save-history", flags->save_history,
                   "Write what is replayed to this file, for --history and \"adaptdl-sim replay --history\"")
      ->type_name("FILE");
  command->add_option("--history", flags->history, "Use this file instead of asking the supervisor")
      ->type_name("FILE");
  command->footer(
      "Without --namespace the jobs of all namespaces are replayed: they share the cluster.\n"
      "How to read the answer: docs/operations.md.");
  command->callback(
      [context, flags] { context->action = [context, flags] { return WhatIf(*context, *flags); }; });
}

}  // namespace adaptdl::cli
