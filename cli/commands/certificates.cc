#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "CLI/Validators.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "cli/commands/commands.h"
#include "cli/format.h"
#include "cli/output.h"
#include "cli/table.h"
#include "libs/certificates/certificates.h"

namespace adaptdl::cli {
namespace {

using certificates::Action;
using certificates::Certificate;

struct CertificateOptions {
  std::string folder;
  std::vector<std::string> services;
  std::vector<std::string> nodes;
  bool node_authority = false;
  int days = 365;
  bool only_look = false;
};

// All services, unless some, or nodes, are named.
std::vector<certificates::Identity> Identities(const CertificateOptions& options) {
  if (options.services.empty() && options.nodes.empty()) return certificates::AllServices();
  std::vector<certificates::Identity> identities;
  for (const std::string& service : options.services) identities.push_back({.service = service});
  for (const std::string& node : options.nodes) identities.push_back({.service = "worker", .node_id = node});
  return identities;
}

std::string ActionText(Action action) {
  switch (action) {
    case Action::kKept:
      return "kept";
    case Action::kMade:
      return "made";
    case Action::kRenewed:
      return "renewed";
    case Action::kMissing:
      return "missing";
    case Action::kDue:
      return "due";
  }
  return "";
}

Colour ActionColour(Action action) {
  if (action == Action::kMissing) return Colour::kRed;
  return action == Action::kDue ? Colour::kYellow : Colour::kGreen;
}

std::string ExpiryText(absl::Time time) {
  if (time == absl::InfinitePast()) return "-";
  return absl::FormatTime("%Y-%m-%d", time, absl::UTCTimeZone());
}

void Show(const Context& context, const std::vector<Certificate>& made) {
  if (context.format != Format::kTable) {
    Json document = {{"certificates", Json::array()}};
    for (const Certificate& certificate : made) {
      document["certificates"].push_back({{"path", certificate.path},
                                          {"name", certificate.name},
                                          {"expires", ExpiryText(certificate.expires)},
                                          {"action", ActionText(certificate.action)}});
    }
    PrintDocument(context, document);
    return;
  }
  Table table{{"CERTIFICATE", "OF", "EXPIRES", "ACTION"}, {}};
  for (const Certificate& certificate : made) {
    table.rows.push_back({Printable(certificate.path),
                          certificate.name,
                          ExpiryText(certificate.expires),
                          {ActionText(certificate.action), ActionColour(certificate.action)}});
  }
  Print(Render(table, context.colours));
}

absl::StatusOr<int> Make(const Context& context, const CertificateOptions& options) {
  const absl::StatusOr<std::vector<Certificate>> made =
      certificates::MakeCertificates({.folder = options.folder,
                                      .identities = Identities(options),
                                      .node_authority = options.node_authority,
                                      .lifetime = absl::Hours(24) * options.days,
                                      .now = context.clock->Now(),
                                      .only_look = options.only_look});
  if (absl::IsInvalidArgument(made.status())) return UsageError(made.status().message());
  if (!made.ok()) return made.status();
  Show(context, *made);
  const bool good = std::none_of(made->begin(), made->end(), [](const Certificate& certificate) {
    return certificate.action == Action::kMissing || certificate.action == Action::kDue;
  });
  return good ? kExitOk : kExitError;
}

}  // namespace

void AddCertificates(CLI::App& admin, Context* context) {
  CLI::App* command = admin.add_subcommand(
      "certificates", "Make, or renew, the private authority of a cluster and its services' certificates");
  const auto options = std::make_shared<CertificateOptions>();
  command->add_option("--out", options->folder, "Folder for them; made again in it, what is good stays")
      ->required()
      ->type_name("DIR");
  command
      ->add_option(
          "--service", options->services,
          "supervisor, allocator, autoscaler or worker; repeatable. Default: all, unless --node is given")
      ->allow_extra_args(false)
      ->type_name("NAME");
  command
      ->add_option("--node", options->nodes,
                   "Id of a node: a certificate of a worker that may be this node only; repeatable")
      ->allow_extra_args(false)
      ->type_name("ID");
  command->add_flag("--node-authority", options->node_authority,
                    "Also the authority by which the supervisor lets machines in as nodes");
  command->add_option("--days", options->days, "Days for which new certificates are good")
      ->check(CLI::Range(1, 3650))
      ->capture_default_str();
  command->add_flag("--check", options->only_look,
                    "Make nothing, only look; exit code 1: something is missing or should be renewed");
  command->callback(
      [context, options] { context->action = [context, options] { return Make(*context, *options); }; });
}

}  // namespace adaptdl::cli
