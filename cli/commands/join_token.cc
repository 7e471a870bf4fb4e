#include <memory>
#include <string>

#include "CLI/App.hpp"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "cli/client.h"
#include "cli/commands/commands.h"
#include "cli/format.h"
#include "cli/output.h"
#include "libs/base/random_id.h"
#include "libs/messages/proto_time.h"

namespace adaptdl::cli {
namespace {

struct JoinTokenOptions {
  std::string node_id;
  absl::Duration lifetime = absl::Hours(1);
};

// The token is all that goes to standard output, so that a script can take it from there.
absl::StatusOr<int> Create(const Context& context, const JoinTokenOptions& options) {
  v1::CreateJoinTokenRequest request;
  request.set_request_id(RandomHex(16));
  request.set_node_id(options.node_id);
  *request.mutable_lifetime() = messages::ToProto(options.lifetime);
  Client client(context);
  const absl::StatusOr<v1::CreateJoinTokenResponse> response =
      client.Call(&Enrolments::CreateJoinToken, request);
  if (absl::IsUnimplemented(response.status())) {
    return absl::UnimplementedError(
        absl::StrCat("the supervisor at ", client.address(),
                     " lets no machines in: it has no --node-authority-cert and --node-authority-key, or is "
                     "of an older version"));
  }
  if (!response.ok()) return response.status();
  if (context.format != Format::kTable) {
    PrintDocument(context, ToJson(*response));
    return kExitOk;
  }
  Print(absl::StrCat(response->token(), "\n"));
  Note(absl::StrCat(
      "it lets one machine in, once, until ",
      absl::FormatTime(absl::RFC3339_sec, messages::ToTime(response->expire_time()), absl::UTCTimeZone()),
      ". There, with the token in the file join-token:"));
  Note(Printable(absl::StrCat("  sudo adaptdl node join --supervisor ", client.address(),
                              " --token-file join-token",
                              options.node_id.empty() ? "" : absl::StrCat(" --node ", options.node_id))));
  return kExitOk;
}

}  // namespace

void AddJoinToken(CLI::App& admin, Context* context) {
  CLI::App* tokens = admin.add_subcommand("join-token", "What lets another machine into the cluster");
  tokens->require_subcommand(1);
  tokens->fallthrough();
  const auto options = std::make_shared<JoinTokenOptions>();
  CLI::App* create =
      tokens->add_subcommand("create", "Make a token that lets one machine in, and print it: this once");
  create->add_option("--node", options->node_id, "The only node that it lets in [any new one]")
      ->type_name("ID");
  AddDuration(*create, "--expires", &options->lifetime, "How long it is good for, at most 168h",
              absl::Seconds(1));
  create->callback(
      [context, options] { context->action = [context, options] { return Create(*context, *options); }; });
}

}  // namespace adaptdl::cli
