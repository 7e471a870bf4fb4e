#include "cli/app.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/commands/cloud.h"
#include "cli/commands/commands.h"
#include "cli/context.h"
#include "cli/format.h"
#include "cli/kubernetes/cluster.h"
#include "cli/output.h"
#include "cli/parse_error.h"
#include "cli/trace.h"
#include "libs/base/version.h"

namespace adaptdl::cli {
namespace {

constexpr int kDefaultWidth = 80;

bool UseColours() {
  const char* no_colour = std::getenv("NO_COLOR");
  if (no_colour != nullptr && *no_colour != '\0') return false;
  const char* terminal = std::getenv("TERM");
  const bool dumb = terminal != nullptr && std::string(terminal) == "dumb";
  return isatty(STDOUT_FILENO) == 1 && !dumb;
}

// 0: nobody says.
int TerminalWidth() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  int width = 0;
  const char* columns = std::getenv("COLUMNS");
  if (columns != nullptr && absl::SimpleAtoi(columns, &width) && width > 0) return width;
  return 0;
}

void AddGlobalFlags(CLI::App& app, Context* context) {
  app.add_option("--supervisor", context->supervisor,
                 "Supervisor's HOST:PORT, or several, separated by commas. Default: "
                 "$ADAPTDL_SUPERVISOR_ADDRESS, else the local cluster's, else "
                 "127.0.0.1:7100");
  app.add_option(
         "--cluster", context->cluster,
         "A cluster that \"adaptdl cloud up\" has launched from here: its supervisor, CA and token. Default: "
         "$ADAPTDL_CLUSTER")
      ->envname("ADAPTDL_CLUSTER")
      ->type_name("NAME");
  app.add_option("--ca", context->ca_file,
                 "PEM file of the CA that the servers' certificates are verified with. Default: "
                 "$ADAPTDL_CA_FILE, else the local cluster's")
      ->type_name("FILE");
  app.add_option(
         "--token-file", context->token_file,
         "File with the token that says who you are. Default: $ADAPTDL_TOKEN (the token itself), else "
         "$ADAPTDL_TOKEN_FILE, else the local cluster's")
      ->type_name("FILE");
  app.add_option("--tls-server-name", context->tls_server_name,
                 "Name that the server's certificate must have. Default: $ADAPTDL_TLS_SERVER_NAME, else "
                 "supervisor.adaptdl")
      ->type_name("NAME");
  app.add_flag("--insecure", context->insecure, "Talk to the supervisor without TLS");
  app.add_option("--namespace", context->name_space,
                 "Namespace of the jobs. Default: default; with --kubernetes, the kubeconfig's");
  const std::map<std::string, Format> formats = {
      {"table", Format::kTable}, {"json", Format::kJson}, {"yaml", Format::kYaml}};
  app.add_option_function<std::string>(
         "-o,--output", [context, formats](const std::string& name) { context->format = formats.at(name); },
         "Output: table, json or yaml")
      ->check(CLI::IsMember(formats))
      ->type_name("FORMAT");
  app.add_option(
         "--otlp-endpoint", context->otlp_endpoint,
         "Collector that gets a trace of the command, by OTLP over HTTP, such as http://127.0.0.1:4318. "
         "Default: $ADAPTDL_OTLP_ENDPOINT, else none")
      ->envname("ADAPTDL_OTLP_ENDPOINT")
      ->type_name("URL");
  AddDuration(app, "--call-timeout", &context->call_timeout, "Deadline of each call to the supervisor",
              absl::Milliseconds(1));
}

void AddKubernetesFlags(CLI::App& app, KubernetesFlags* flags) {
  app.add_flag("--kubernetes", flags->enabled,
               "The supervisor is that of a cluster of Kubernetes, which is reached through its API server. "
               "Default: $ADAPTDL_KUBERNETES")
      ->envname("ADAPTDL_KUBERNETES")
      ->excludes("--supervisor");
  app.add_option("--kubeconfig", flags->kubeconfig,
                 "With --kubernetes: the kubeconfig. Default: as kubectl finds it")
      ->type_name("FILE");
  app.add_option("--kube-context", flags->context,
                 "With --kubernetes: an entry of the kubeconfig's contexts. Default: "
                 "$ADAPTDL_KUBE_CONTEXT, else its current one")
      ->envname("ADAPTDL_KUBE_CONTEXT");
  app.add_option("--service-account", flags->service_account,
                 "With --kubernetes: whose token says who you are, of the jobs' namespace. Default: "
                 "$ADAPTDL_SERVICE_ACCOUNT, else adaptdl-user")
      ->envname("ADAPTDL_SERVICE_ACCOUNT");
  app.add_option("--operator-namespace", flags->operator_namespace,
                 "With --kubernetes: the namespace of the supervisor. Default: "
                 "$ADAPTDL_OPERATOR_NAMESPACE, else adaptdl")
      ->envname("ADAPTDL_OPERATOR_NAMESPACE");
}

void AddCommands(CLI::App& app, Context* context) {
  AddSubmit(app, context);
  AddRun(app, context);
  AddLs(app, context);
  AddDescribe(app, context);
  AddExplain(app, context);
  AddLogs(app, context);
  AddCp(app, context);
  AddEvents(app, context);
  AddTimeline(app, context);
  AddDashboard(app, context);
  AddHistory(app, context);
  AddTop(app, context);
  AddDebug(app, context);
  AddDoctor(app, context);
  AddWait(app, context);
  AddUpdate(app, context);
  AddSuspend(app, context);
  AddResume(app, context);
  AddCancel(app, context);
  AddDelete(app, context);
  AddNodes(app, context);
  AddNode(app, context);
  AddDrain(app, context);
  AddForget(app, context);
  AddPools(app, context);
  AddCost(app, context);
  AddQuota(app, context);
  AddWhatIf(app, context);
  AddWhoAmI(app, context);
  AddTune(app, context);
  AddTensorboard(app, context);
  AddAdmin(app, context);
  AddHealth(app, context);
  AddCloud(app, context);
  AddCluster(app, context);
  AddCompletion(app, context);
  AddVersion(app, context);
}

int Report(const Context& context, const absl::Status& status) {
  const std::string head = context.colours ? Coloured("error:", Colour::kRed) : "error:";
  // One problem per line; each is made safe for the terminal by itself.
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(status.message(), '\n'))) {
    Note(absl::StrCat(head, " ", Printable(line)));
  }
  return IsUsageError(status) ? kExitUsage : kExitError;
}

// Help goes to standard output; what is wrong is said like every other error.
int ReportParseError(const CLI::App& app, const Context& context, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return app.exit(error);
  return Report(context, UsageError(ParseErrorText(app, error)));
}

}  // namespace

int Run(const std::vector<std::string>& arguments, const Clock& clock) {
  Context context;
  context.clock = &clock;
  context.colours = UseColours();
  context.table_width = TerminalWidth();
  context.width = context.table_width > 0 ? context.table_width : kDefaultWidth;
  const auto separator = std::find(arguments.begin(), arguments.end(), "--");
  std::vector<std::string> own(arguments.begin(), separator);
  if (separator != arguments.end()) {
    context.has_separator = true;
    context.after_separator.assign(separator + 1, arguments.end());
  }

  CLI::App app("Elastic, goodput-optimised deep-learning training.", "adaptdl");
  app.set_version_flag("--version", absl::StrCat("adaptdl ", Version()));
  app.require_subcommand(1);
  app.fallthrough();
  AddGlobalFlags(app, &context);
  AddKubernetesFlags(app, &context.kubernetes);
  AddCommands(app, &context);
  if (arguments.empty()) {  // Who names no command is told which there are.
    Note(app.help());
    return kExitUsage;
  }
  try {
    std::reverse(own.begin(), own.end());  // CLI11 takes the arguments from the back
    app.parse(own);
  } catch (const CLI::ParseError& error) {
    return ReportParseError(app, context, error);
  }
  const bool takes_arguments =
      app.got_subcommand("submit") || app.got_subcommand("run") || app.got_subcommand("__complete") ||
      (app.got_subcommand("cloud") && app.get_subcommand("cloud")->got_subcommand("submit"));
  if (context.has_separator && !takes_arguments) {
    return Report(context, UsageError("only \"adaptdl submit\", \"adaptdl cloud submit\" and \"adaptdl run\" "
                                      "take arguments after \"--\""));
  }
  if (context.kubernetes.enabled) {
    // Commands that need the cluster say what is wrong with it.
    context.default_namespace = NamespaceOfKubeconfig(context.kubernetes).value_or("default");
  }
  // What is launched is none that can be used yet, and some commands need none.
  const bool launches = app.got_subcommand("cloud") && !app.get_subcommand("cloud")->got_subcommand("submit");
  const bool is_local = app.got_subcommand("cluster") || app.got_subcommand("version") ||
                        app.got_subcommand("completion") || app.got_subcommand("__complete");
  if (!launches && !is_local) {
    if (const absl::Status used = UseCluster(&context); !used.ok()) return Report(context, used);
  }
  const auto trace =
      CommandTrace::Begin(app.get_subcommands().front()->get_name(), context.otlp_endpoint, &clock);
  if (!trace.ok()) return Report(context, trace.status());
  const absl::StatusOr<int> code = context.action();
  if (!code.ok()) (*trace)->Fail(code.status());
  return code.ok() ? *code : Report(context, code.status());
}

}  // namespace adaptdl::cli
