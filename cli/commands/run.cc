#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "cli/commands/commands.h"
#include "cli/output.h"
#include "cli/run/launcher.h"

namespace adaptdl::cli {
namespace {

constexpr int kMostReplicas = 1024;

struct RunOptions {
  int replicas = 1;
  int max_restarts = 0;
  std::string checkpoint;
  std::vector<std::string> env;
};

absl::StatusOr<int> RunHere(const Context& context, const RunOptions& options) {
  if (context.after_separator.empty()) {
    return UsageError("give the program after \"--\", as in: adaptdl run -n 4 -- ./train --epochs 3");
  }
  LauncherOptions launcher;
  launcher.command = context.after_separator;
  launcher.replicas = options.replicas;
  launcher.max_restarts = options.max_restarts;
  // The same folder, whatever the program makes its own.
  if (!options.checkpoint.empty())
    launcher.checkpoint = std::filesystem::absolute(options.checkpoint).string();
  for (const std::string& text : options.env) {
    const absl::StatusOr<std::pair<std::string, std::string>> variable = ParseKeyValue("--env", text);
    if (!variable.ok()) return variable.status();
    launcher.environment[variable->first] = variable->second;
  }
  launcher.colours[0] = context.colours;
  launcher.colours[1] = context.colours && isatty(STDERR_FILENO) == 1;
  return Launch(launcher, [](absl::string_view text) { Note(absl::StrCat("adaptdl run: ", text)); });
}

}  // namespace

void AddRun(CLI::App& app, Context* context) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command =
      app.add_subcommand("run", "Run a training program on this machine, without a cluster: run -- COMMAND");
  command->add_option("-n,--replicas", options->replicas, "Number of replicas (default: 1)")
      ->check(CLI::Range(1, kMostReplicas));
  command->add_option("--checkpoint", options->checkpoint,
                      "Folder of checkpoints; the same command goes on from there. Default: "
                      "$ADAPTDL_CHECKPOINT_PATH, else none are written");
  command
      ->add_option("--max-restarts", options->max_restarts,
                   "How often a failed group starts again from the checkpoint (default: 0)")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--env", options->env, "Variable of the program's environment, KEY=VALUE; repeatable")
      ->allow_extra_args(false);
  command->callback(
      [context, options] { context->action = [context, options] { return RunHere(*context, *options); }; });
}

}  // namespace adaptdl::cli
