#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "CLI/App.hpp"
#include "CLI/Validators.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "cli/child_program.h"
#include "cli/commands/commands.h"
#include "cli/kubernetes/interruption.h"
#include "libs/base/process/environment.h"
#include "libs/base/process/spawn.h"
#include "libs/base/program_folder.h"

namespace adaptdl::cli {
namespace {

// What Python runs: adaptdl.tune, or what is to be done where it is missing.
constexpr char kTuneProgram[] = R"(import sys
try:
    from adaptdl.tune.command import main
except ImportError as error:
    sys.exit("error: " + sys.executable + " has no package adaptdl with searches (" + str(error) +
             "): pip install 'adaptdl-elastic[tune]', or name another Python by --python")
sys.exit(main(sys.argv[1:]))
)";

struct TuneFlags {
  std::string python = "python3";
  // A file, or a search's name.
  std::string subject;
  std::string sqlite;
  std::string copy;
  bool local = false;
  absl::Duration interval = absl::Seconds(1);
};

// Where the cluster is and who we are, as the Python client reads it. Flags win over our own environment.
std::map<std::string, std::string> TuneEnvironment(const Context& context) {
  std::map<std::string, std::string> changes;
  if (!context.supervisor.empty()) changes["ADAPTDL_SUPERVISOR_ADDRESS"] = context.supervisor;
  if (!context.tls_server_name.empty()) changes["ADAPTDL_TLS_SERVER_NAME"] = context.tls_server_name;
  if (!context.ca_file.empty()) {
    changes["ADAPTDL_CA_FILE"] = context.ca_file;
    changes["ADAPTDL_INSECURE"] = "";
  }
  if (!context.token_file.empty()) {
    changes["ADAPTDL_TOKEN_FILE"] = context.token_file;
    changes["ADAPTDL_TOKEN"] = "";
  }
  if (context.insecure) changes["ADAPTDL_INSECURE"] = "1";
  // Where this was built, the package lies beside the programs, and nowhere else.
  const auto built = std::filesystem::path(ProgramFolder()).parent_path() / "python";
  std::error_code error;
  if (std::filesystem::exists(built / "adaptdl" / "tune", error)) {
    const char* const others = std::getenv("PYTHONPATH");
    changes["PYTHONPATH"] = others == nullptr ? built.string() : absl::StrCat(built.string(), ":", others);
  }
  return changes;
}

absl::StatusOr<int> RunTune(const Context& context, const TuneFlags& flags, std::vector<std::string> words) {
  if (context.kubernetes.enabled) {
    return UsageError(
        "adaptdl tune makes no way into a cluster of Kubernetes: give the supervisor's address by "
        "--supervisor");
  }
  const Interruption interruption;
  SpawnOptions program;
  program.command = {flags.python, "-c", kTuneProgram, "--namespace", context.Namespace()};
  program.command.insert(program.command.end(), words.begin(), words.end());
  program.environment = OwnEnvironmentWith(TuneEnvironment(context));
  absl::StatusOr<ChildProgram> child = ChildProgram::Start(
      program, "which searches run by: apt install python3-optuna, or name another Python by --python");
  if (!child.ok()) return child.status();
  bool told = false;
  while (!child->HasEnded()) {
    if (!interruption.token().stop_requested() || told) continue;
    child->Signal(interruption.signal());
    told = true;
  }
  return child->Wait();
}

CLI::App* AddTuneAction(CLI::App* tune, Context* context, const std::shared_ptr<TuneFlags>& flags,
                        const std::string& name, const std::string& help, const std::string& subject) {
  CLI::App* action = tune->add_subcommand(name, help);
  if (subject == "FILE") {
    action->add_option(subject, flags->subject, "Its file (docs/tuning.md)")
        ->required()
        ->check(CLI::ExistingFile);
  } else if (!subject.empty()) {
    action->add_option(subject, flags->subject, "Name of the search")->required();
  }
  const bool runs = name == "run" || name == "resume";
  if (runs) {
    action->add_flag("--local", flags->local, "Run the tuner here, and not as a job of the cluster");
    AddDuration(*action, "--interval", &flags->interval, "Time between two looks at the trials",
                absl::Milliseconds(100))
        ->capture_default_str();
  }
  action->callback([=] {
    std::vector<std::string> words = {name};
    if (runs) words.push_back(absl::StrCat("--interval=", absl::ToDoubleSeconds(flags->interval)));
    if (!flags->sqlite.empty()) words.push_back(absl::StrCat("--sqlite=", flags->sqlite));
    if (flags->local) words.push_back("--local");
    if (!flags->copy.empty()) words.push_back(absl::StrCat("--copy=", flags->copy));
    if (!subject.empty()) words.insert(words.end(), {"--", flags->subject});
    context->action = [=] { return RunTune(*context, *flags, words); };
  });
  return action;
}

}  // namespace

void AddTune(CLI::App& app, Context* context) {
  const auto flags = std::make_shared<TuneFlags>();
  CLI::App* tune = app.add_subcommand("tune", "Search for good hyper-parameters, by trials that are jobs");
  tune->require_subcommand(1);
  tune->add_option("--python", flags->python, "Python that has the package adaptdl, and Optuna")
      ->capture_default_str();
  const auto add = [&](const std::string& name, const std::string& help, const std::string& subject) {
    return AddTuneAction(tune, context, flags, name, help, subject);
  };
  add("run", "Run the search of a file, or go on with it, by a tuner that is a job of the cluster", "FILE");
  add("resume", "Follow a search, and go on with it if its tuner is gone or it was stopped", "NAME");
  add("ls", "Show the searches that there are", "");
  add("show", "Show the trials of a search", "NAME");
  add("best", "Show the best trial, as JSON", "NAME")
      ->add_option("--copy", flags->copy,
                   "Also copy its checkpoint and its shared files into this folder, which is new or empty")
      ->type_name("DIR");
  add("export", "Write all trials as JSON", "NAME")
      ->add_option("--sqlite", flags->sqlite, "Write a study for Optuna's own tools to this new file instead")
      ->type_name("FILE");
  add("plot", "Draw a search: its metric over progress, and its parameters, as SVG files in this folder",
      "NAME");
  add("stop", "Stop a search, and its trials that run", "NAME");
  add("delete", "Remove a search that has ended, with its trials' jobs and their files", "NAME");
}

}  // namespace adaptdl::cli
