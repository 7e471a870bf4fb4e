#include <memory>
#include <string>

#include "CLI/App.hpp"
#include "cli/cloud/announcement.h"
#include "cli/commands/cloud.h"
#include "cli/output.h"
#include "cli/security.h"
#include "libs/base/file.h"

namespace adaptdl::cli {
namespace {

struct AnnounceOptions {
  std::string cluster;
  std::string recipient;
  std::string authority;
  std::string token;
};

absl::StatusOr<int> Announce(const AnnounceOptions& options) {
  const absl::StatusOr<std::string> recipient = ReadWholeFile(options.recipient, 1 << 20);
  if (!recipient.ok()) return recipient.status();
  absl::StatusOr<std::string> authority = ReadWholeFile(options.authority, 1 << 20);
  if (!authority.ok()) return authority.status();
  absl::StatusOr<std::string> token = ReadToken(options.token);
  if (!token.ok()) return token.status();
  const absl::StatusOr<std::string> lines =
      Seal({.cluster = options.cluster, .authority = *std::move(authority), .token = *std::move(token)},
           *recipient);
  if (!lines.ok()) return lines.status();
  Print(*lines);
  return kExitOk;
}

}  // namespace

void AddCloudAnnounce(CLI::App& cloud, Context* context) {
  CLI::App* command = cloud.add_subcommand(
      "announce",
      "On a head: tell on the console what a client needs, encrypted to the key that has launched it");
  command->group("");  // not for people
  const auto options = std::make_shared<AnnounceOptions>();
  command->add_option("--cluster-name", options->cluster, "The cluster's name")->required();
  command->add_option("--recipient", options->recipient, "Certificate that is encrypted to")
      ->required()
      ->type_name("FILE");
  command->add_option("--authority", options->authority, "The cluster's ca.pem")
      ->required()
      ->type_name("FILE");
  command->add_option("--admin-token-file", options->token, "The administrator's token")
      ->required()
      ->type_name("FILE");
  command->callback([context, options] { context->action = [options] { return Announce(*options); }; });
}

}  // namespace adaptdl::cli
