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
};

std::string BoundText(const v1::NamespaceQuota& quota) {
  return quota.gpus() > 0 ? absl::StrCat(quota.gpus()) : "no bound";
}

absl::StatusOr<int> Set(const Context& context, const QuotaOptions& options) {
  if (!options.gpus && !options.weight) return UsageError("give --gpus, --weight or both");
  v1::SetQuotaRequest request;
  request.set_request_id(RandomHex(16));
  request.set_namespace_(options.name_space);
  if (options.gpus) request.set_gpus(*options.gpus);
  if (options.weight) request.set_weight(*options.weight);
  Client client(context);
  const absl::StatusOr<v1::SetQuotaResponse> response = client.Call(&Quotas::SetQuota, request);
  if (!response.ok()) return response.status();
  if (context.format != Format::kTable) {
    PrintDocument(context, ToJson(response->quota()));
  } else {
    Print(Printable(absl::StrCat("namespace ", response->quota().namespace_(), ": GPUs ",
                                 BoundText(response->quota()), ", weight ", response->quota().weight())) +
          "\n");
  }
  return kExitOk;
}

absl::StatusOr<int> List(const Context& context) {
  Client client(context);
  const absl::StatusOr<v1::ListQuotasResponse> quotas =
      client.Call(&Quotas::ListQuotas, v1::ListQuotasRequest());
  if (!quotas.ok()) return quotas.status();
  if (context.format != Format::kTable) {
    PrintDocument(context, ToJson(*quotas));
  } else if (quotas->quotas().empty()) {
    Note("no quotas");
  } else {
    Table table{{"NAMESPACE", "GPUS", "WEIGHT"}, {}};
    for (const v1::NamespaceQuota& quota : quotas->quotas()) {
      table.rows.push_back({Printable(quota.namespace_()), BoundText(quota), absl::StrCat(quota.weight())});
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

  CLI::App* set = quota->add_subcommand("set", "Set bound, weight or both; the other one stays");
  set->add_option("NAMESPACE", options->name_space, "Namespace")->required();
  set->add_option("--gpus", options->gpus,
                  "Most GPUs of all its jobs together; replicas, for jobs without GPUs. 0: no bound");
  set->add_option("--weight", options->weight, "How much its jobs' speed counts. Other namespaces: 1");
  set->callback(
      [context, options] { context->action = [context, options] { return Set(*context, *options); }; });

  quota->add_subcommand("ls", "List them")->callback([context] {
    context->action = [context] { return List(*context); };
  });

  CLI::App* remove = quota->add_subcommand("rm", "No bound any more, and weight 1");
  remove->add_option("NAMESPACE", options->name_space, "Namespace")->required();
  remove->callback(
      [context, options] { context->action = [context, options] { return Remove(*context, *options); }; });
}

}  // namespace adaptdl::cli
