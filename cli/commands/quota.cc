#include <memory>
#include <optional>
#include <string>

#include "CLI/App.hpp"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "cli/client.h"
#include "cli/commands/commands.h"
#include "cli/format.h"
#include "cli/output.h"
#include "cli/table.h"
#include "libs/base/random_id.h"

namespace adaptdl::cli {
namespace {

struct QuotaOptions {
  std::string name_space;
  std::optional<int> gpus;
  std::optional<double> weight;
  std::optional<int> jobs;
  std::optional<int> submissions_per_minute;
};

std::string BoundText(int bound) { return bound > 0 ? absl::StrCat(bound) : "no bound"; }

// Of bounds that the supervisor's own take the place of.
std::string OwnBoundText(int bound) { return bound > 0 ? absl::StrCat(bound) : "default"; }

absl::StatusOr<int> Set(const Context& context, const QuotaOptions& options) {
  if (!options.gpus && !options.weight && !options.jobs && !options.submissions_per_minute) {
    return UsageError("give --gpus, --weight, --jobs, --submissions-per-minute or several of them");
  }
  v1::SetQuotaRequest request;
  request.set_request_id(RandomHex(16));
  request.set_namespace_(options.name_space);
  if (options.gpus) request.set_gpus(*options.gpus);
  if (options.weight) request.set_weight(*options.weight);
  if (options.jobs) request.set_jobs(*options.jobs);
  if (options.submissions_per_minute) request.set_submissions_per_minute(*options.submissions_per_minute);
  Client client(context);
  const absl::StatusOr<v1::SetQuotaResponse> response = client.Call(&Quotas::SetQuota, request);
  if (!response.ok()) return response.status();
  if (context.format != Format::kTable) {
    PrintDocument(context, ToJson(response->quota()));
  } else {
    const v1::NamespaceQuota& quota = response->quota();
    std::string text = absl::StrCat("namespace ", quota.namespace_(), ": GPUs ", BoundText(quota.gpus()),
                                    ", weight ", quota.weight());
    if (quota.jobs() > 0) absl::StrAppend(&text, ", unfinished jobs ", quota.jobs());
    if (quota.submissions_per_minute() > 0) {
      absl::StrAppend(&text, ", submissions per minute ", quota.submissions_per_minute());
    }
    Print(Printable(text) + "\n");
  }
  return kExitOk;
}

absl::StatusOr<int> List(const Context& context) {
  Client client(context);
  const absl::StatusOr<v1::ListQuotasResponse> quotas = ListAllQuotas(client);
  if (!quotas.ok()) return quotas.status();
  if (context.format != Format::kTable) {
    PrintDocument(context, ToJson(*quotas));
  } else if (quotas->quotas().empty()) {
    Note("no quotas");
  } else {
    Table table{{"NAMESPACE", "GPUS", "WEIGHT", "JOBS", "SUBMISSIONS/MIN"}, {}};
    for (const v1::NamespaceQuota& quota : quotas->quotas()) {
      table.rows.push_back({Printable(quota.namespace_()), BoundText(quota.gpus()),
                            absl::StrCat(quota.weight()), OwnBoundText(quota.jobs()),
                            OwnBoundText(quota.submissions_per_minute())});
    }
    Print(Render(table, context.colours));
  }
  return kExitOk;
}

absl::StatusOr<int> Remove(const Context& context, const QuotaOptions& options) {
  v1::RemoveQuotaRequest request;
  request.set_request_id(RandomHex(16));
  request.set_namespace_(options.name_space);
  Client client(context);
  const absl::StatusOr<v1::RemoveQuotaResponse> response = client.Call(&Quotas::RemoveQuota, request);
  if (!response.ok()) return response.status();
  if (context.format != Format::kTable) {
    PrintDocument(context, ToJson(*response));
  } else {
    Print(Printable(absl::StrCat("namespace ", options.name_space, " has no quota any more")) + "\n");
  }
  return kExitOk;
}

}  // namespace

void AddQuota(CLI::App& app, Context* context) {
  CLI::App* quota = app.add_subcommand("quota", "How much of the cluster namespaces may have");
  quota->require_subcommand(1);
  quota->fallthrough();
  const auto options = std::make_shared<QuotaOptions>();

  CLI::App* set = quota->add_subcommand("set", "Set what is given; the rest stays");
  set->add_option("NAMESPACE", options->name_space, "Namespace")->required();
  set->add_option("--gpus", options->gpus,
                  "Most GPUs of all its jobs together; replicas, for jobs without GPUs. 0: no bound");
  set->add_option("--weight", options->weight, "How much its jobs' speed counts. Other namespaces: 1");
  set->add_option("--jobs", options->jobs,
                  "Most jobs that have not finished. 0: the supervisor's --max-jobs-per-namespace");
  set->add_option("--submissions-per-minute", options->submissions_per_minute,
                  "Most submissions in any minute. 0: the supervisor's --max-submissions-per-minute");
  set->callback(
      [context, options] { context->action = [context, options] { return Set(*context, *options); }; });

  quota->add_subcommand("ls", "List them")->callback([context] {
    context->action = [context] { return List(*context); };
  });

  CLI::App* remove = quota->add_subcommand("rm", "No quota of its own any more, and weight 1");
  remove->add_option("NAMESPACE", options->name_space, "Namespace")->required();
  remove->callback(
      [context, options] { context->action = [context, options] { return Remove(*context, *options); }; });
}

}  // namespace adaptdl::cli
