#include <memory>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "CLI/Error.hpp"
#include "CLI/Validators.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "cli/commands/commands.h"
#include "cli/format.h"
#include "cli/output.h"
#include "cli/table.h"
#include "libs/base/clock.h"
#include "libs/service/security/token_file.h"

namespace adaptdl::cli {
namespace {

struct TokenOptions {
  std::string file;
  std::string name;
  std::string role;
  std::vector<std::string> namespaces;
  absl::Duration lifetime = absl::InfiniteDuration();
};

// "90d", or what absl reads: "36h".
absl::Duration LifetimeOrThrow(const std::string& text) {
  absl::string_view days_text = text;
  int days = 0;
  absl::Duration lifetime;
  if (absl::ConsumeSuffix(&days_text, "d") && absl::SimpleAtoi(days_text, &days)) {
    lifetime = absl::Hours(24) * days;
  } else if (!absl::ParseDuration(text, &lifetime)) {
    lifetime = absl::ZeroDuration();
  }
  if (lifetime > absl::ZeroDuration() && lifetime < absl::InfiniteDuration()) return lifetime;
  throw CLI::ValidationError("--expires",
                             absl::StrCat("\"", text, "\" is no time span: write 90d or 36h, for example"));
}

std::string TimeText(absl::Time time) {
  return time == absl::InfiniteFuture() ? "never"
                                        : absl::FormatTime(absl::RFC3339_sec, time, absl::UTCTimeZone());
}

// The token is all that goes to standard output, so that a script can take it from there.
absl::StatusOr<int> Create(const Context& context, const TokenOptions& options) {
  const absl::StatusOr<std::string> token =
      security::CreateToken(options.file,
                            {.name = options.name,
                             .role = security::ParseRole(options.role).value_or(security::Role::kUser),
                             .namespaces = options.namespaces,
                             .lifetime = options.lifetime},
                            *context.clock);
  if (absl::IsInvalidArgument(token.status())) return UsageError(token.status().message());
  if (!token.ok()) return token.status();
  if (context.format == Format::kTable) {
    Print(absl::StrCat(*token, "\n"));
    Note("this is the only time that the token is shown; only its SHA-256 is kept");
  } else {
    PrintDocument(context, {{"name", options.name}, {"token", *token}});
  }
  return kExitOk;
}

absl::StatusOr<int> List(const Context& context, const TokenOptions& options) {
  const absl::StatusOr<std::vector<security::Token>> tokens = security::ReadTokenFile(options.file);
  if (!tokens.ok()) return tokens.status();
  if (context.format != Format::kTable) {
    Json document = {{"tokens", Json::array()}};
    for (const security::Token& token : *tokens) {
      document["tokens"].push_back({{"name", token.name},
                                    {"role", std::string(security::RoleName(token.role))},
                                    {"namespaces", token.namespaces},
                                    {"created", TimeText(token.created)},
                                    {"expires", TimeText(token.expires)}});
    }
    PrintDocument(context, document);
    return kExitOk;
  }
  const absl::Time now = context.clock->Now();
  Table table{{"NAME", "ROLE", "NAMESPACES", "CREATED", "EXPIRES"}, {}};
  for (const security::Token& token : *tokens) {
    const Colour colour = token.expires <= now ? Colour::kRed : Colour::kNone;
    table.rows.push_back({Printable(token.name), std::string(security::RoleName(token.role)),
                          Printable(token.namespaces.empty() ? "*" : absl::StrJoin(token.namespaces, ",")),
                          TimeText(token.created), Cell(TimeText(token.expires), colour)});
  }
  Print(Render(table, context.colours));
  return kExitOk;
}

absl::StatusOr<int> Revoke(const Context& context, const TokenOptions& options) {
  if (absl::Status status = security::RevokeToken(options.file, options.name); !status.ok()) return status;
  if (context.format == Format::kTable) {
    Print(Printable(absl::StrCat("token ", options.name, " is revoked; servers refuse it within a second")) +
          "\n");
  } else {
    PrintDocument(context, {{"name", options.name}, {"revoked", true}});
  }
  return kExitOk;
}

CLI::App* AddVerb(CLI::App* parent, const char* verb, const char* help, TokenOptions* options) {
  CLI::App* command = parent->add_subcommand(verb, help);
  command->add_option("--file", options->file, "The file that servers are given by their --token-file")
      ->required()
      ->type_name("FILE");
  return command;
}

}  // namespace

void AddToken(CLI::App& admin, Context* context) {
  CLI::App* token =
      admin.add_subcommand("token", "Tokens of users and their programs, in a file of a server");
  token->require_subcommand(1);
  token->fallthrough();
  const auto options = std::make_shared<TokenOptions>();

  CLI::App* create = AddVerb(token, "create", "Make a token and print it: this once", options.get());
  create->add_option("--name", options->name, "What it is called in logs and lists")
      ->required()
      ->type_name("NAME");
  create->add_option("--role", options->role, "What it may do: user, operator or admin")
      ->required()
      ->check(CLI::IsMember({"user", "operator", "admin"}))
      ->type_name("ROLE");
  create->add_option("--namespace", options->namespaces, "Of a user: a namespace that it may use; repeatable")
      ->allow_extra_args(false)
      ->type_name("NAME");
  create
      ->add_option_function<std::string>(
          "--expires", [options](const std::string& text) { options->lifetime = LifetimeOrThrow(text); },
          "Time until it ends, such as 90d or 36h. Default: never")
      ->type_name("DURATION");
  create->callback(
      [context, options] { context->action = [context, options] { return Create(*context, *options); }; });

  AddVerb(token, "list", "Show names and roles; what was printed once is not kept", options.get())
      ->callback(
          [context, options] { context->action = [context, options] { return List(*context, *options); }; });

  CLI::App* revoke = AddVerb(token, "revoke", "Take a token out of the file", options.get());
  revoke->add_option("--name", options->name, "Which one")->required()->type_name("NAME");
  revoke->callback(
      [context, options] { context->action = [context, options] { return Revoke(*context, *options); }; });
}

}  // namespace adaptdl::cli
