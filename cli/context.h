// What all commands share: the global flags, and where output goes.
//
// Not thread-safe: the command line is read and carried out by one thread.

#ifndef ADAPTDL_CLI_CONTEXT_H_
#define ADAPTDL_CLI_CONTEXT_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/base/clock.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace adaptdl::cli {

// Exit codes; docs/cli.md explains them.
inline constexpr int kExitOk = 0;
inline constexpr int kExitError = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitJobFailed = 3;
inline constexpr int kExitJobCancelled = 4;
inline constexpr int kExitTimeout = 124;

enum class Format { kTable, kJson, kYaml };

// --kubernetes and its companions.
struct KubernetesFlags {
  bool enabled = false;
  // As kubectl has them; empty: what it takes by itself.
  std::string kubeconfig;
  std::string context;
  // Whose token the commands show to the supervisor; of the jobs' namespace.
  std::string service_account = "adaptdl-user";
  // Where the supervisor's pods are.
  std::string operator_namespace = "adaptdl";
};

struct Context {
  // --supervisor. Empty: found as docs/cli.md says.
  std::string supervisor;
  // --cluster: one that "adaptdl cloud up" has launched from here. Empty: none.
  std::string cluster;
  // --ca, --token-file, --tls-server-name, --insecure. What is left out is found as docs/cli.md says.
  std::string ca_file;
  std::string token_file;
  std::string tls_server_name;
  bool insecure = false;
  KubernetesFlags kubernetes;
  // --namespace. Empty: default_namespace, or what a job file says.
  std::string name_space;
  // With --kubernetes, that of the kubeconfig.
  std::string default_namespace = "default";
  Format format = Format::kTable;
  // --otlp-endpoint: where a trace of the command goes. Empty: nowhere.
  std::string otlp_endpoint;
  // --call-timeout: deadline of each call, streams excepted.
  absl::Duration call_timeout = absl::Seconds(10);
  // Whether colours may be used, and how many columns a line has.
  bool colours = false;
  int width = 80;
  // The same for tables whose columns give way: 0, no bound, where neither a terminal nor $COLUMNS says one, since a
  // program may read them.
  int table_width = 0;
  // The machine's; not owned.
  const Clock* clock = nullptr;
  // What follows "--" on the command line, and whether there was one.
  bool has_separator = false;
  std::vector<std::string> after_separator;

  // Of jobs that say none.
  const std::string& Namespace() const { return name_space.empty() ? default_namespace : name_space; }

  // The command to carry out, set by the parse; returns the exit code.
  std::function<absl::StatusOr<int>()> action;
};

// A wrong use of the command line: exit code 2.
absl::Status UsageError(absl::string_view text);
bool IsUsageError(const absl::Status& status);

struct JobReference {
  std::string name_space;
  std::string name;
};

// "name" in the context's namespace, or "namespace/name".
absl::StatusOr<JobReference> ParseJobReference(const Context& context, absl::string_view text);

// "key=value"; `flag` names the flag in the error.
absl::StatusOr<std::pair<std::string, std::string>> ParseKeyValue(absl::string_view flag,
                                                                  absl::string_view text);

// A flag that takes a time span such as "60s", of at least `minimum`.
CLI::Option* AddDuration(CLI::App& app, const std::string& name, absl::Duration* value,
                         const std::string& help, absl::Duration minimum = absl::ZeroDuration());

// $ADAPTDL_HOME, else ~/.adaptdl: where a local cluster lives.
std::string HomeFolder();

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_CONTEXT_H_
