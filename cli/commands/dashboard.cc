#include <memory>
#include <string>
#include <utility>

#include "CLI/App.hpp"
#include "CLI/Validators.hpp"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "cli/client.h"
#include "cli/commands/commands.h"
#include "cli/kubernetes/interruption.h"
#include "cli/output.h"
#include "libs/dashboard/access.h"
#include "libs/dashboard/gateway.h"
#include "libs/httpd/http_server.h"

namespace adaptdl::cli {
namespace {

// What changes is shown after so long at the latest.
constexpr absl::Duration kStep = absl::Milliseconds(500);

absl::StatusOr<int> Dashboard(const Context& context, int port) {
  // Before any other thread is made.
  Interruption interruption;
  Client client(context);
  // Says at once what is wrong with the address or the token.
  if (const auto who = client.Call(&Admin::WhoAmI, v1::WhoAmIRequest()); !who.ok()) return who.status();
  dashboard::Access access;
  dashboard::Gateway gateway({.channel = [&client] { return client.channel(); },
                              .go_on = [&client] { client.GoOn(); },
                              .name_space = context.Namespace(),
                              .call_timeout = context.call_timeout},
                             &access);
  httpd::HttpServerOptions options;
  options.listen = absl::StrCat("127.0.0.1:", port);
  options.flag = "--port";
  options.max_connections = 256;
  const auto server = httpd::HttpServer::Start(
      options, [&gateway](const httpd::HttpRequest& request, std::shared_ptr<httpd::HttpExchange> exchange) {
        gateway.Handle(request, std::move(exchange));
      });
  if (!server.ok()) return server.status();
  access.set_port((*server)->port());
  Print(absl::StrCat("http://", (*server)->address(), "/?", access.Query(), "\n"));
  Note("Open it in a browser, which it admits once. Ctrl-C ends it.");
  while (!interruption.token().stop_requested()) {
    gateway.Step();
    (*server)->Step(context.clock->Now());
    context.clock->SleepFor(kStep);
  }
  return kExitOk;
}

}  // namespace

void AddDashboard(CLI::App& app, Context* context) {
  CLI::App* command =
      app.add_subcommand("dashboard", "Show the cluster in a web browser on this machine, until Ctrl-C");
  const auto port = std::make_shared<int>(0);
  command->add_option("-p,--port", *port, "Port of 127.0.0.1. Default: any free one")
      ->check(CLI::Range(1, 65535));
  command->callback(
      [context, port] { context->action = [context, port] { return Dashboard(*context, *port); }; });
}

}  // namespace adaptdl::cli
