#include "libs/service/main.h"

#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Error.hpp"
#include "CLI/Formatter.hpp"
#include "CLI/Option.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "libs/base/nearest.h"
#include "libs/service/flags.h"
#include "libs/service/log.h"
#include "libs/service/termination.h"

namespace adaptdl::service {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

bool OnCommandLine(const std::string& flag, int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (argv[i] == flag || absl::StartsWith(argv[i], absl::StrCat(flag, "="))) return true;
  }
  return false;
}

// The parser's messages name the flag; whoever set the variable looks for the variable.
std::string EnvironmentHint(const CLI::App& app, const std::string& message, int argc, char** argv) {
  for (const CLI::Option* option : app.get_options()) {
    const std::string flag = option->get_name();
    const std::string variable = option->get_envname();
    if (variable.empty() || std::getenv(variable.c_str()) == nullptr) continue;
    if (!absl::StrContains(message, flag) || OnCommandLine(flag, argc, argv)) continue;
    return absl::StrCat(" (the value comes from the environment variable ", variable, ")");
  }
  return "";
}

// A flag that there is and that may have been meant instead of one that there isn't.
std::string NearFlag(const CLI::App& app) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back(absl::StrCat("--", name));
  }
  for (const std::string& word : app.remaining()) {
    if (absl::StartsWith(word, "--")) return DidYouMeanFlag(word, {flags.begin(), flags.end()});
  }
  return "";
}

}  // namespace

int RunMain(CLI::App& app, int argc, char** argv, const std::function<absl::Status()>& run) {
  ReadAllFromEnvironment(app);
  app.get_formatter()->column_width(44);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success);  // --help, --version
  } catch (const CLI::ParseError& error) {
    std::cerr << argv[0] << ": " << error.what() << EnvironmentHint(app, error.what(), argc, argv)
              << NearFlag(app) << "\nRun with --help for the flags.\n";
    return kUsage;
  }
  // Debian's Abseil is built with its checks, and would look for cycles of locks at each of gRPC's.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  BlockTerminationSignals();
  const absl::Status status = run();
  if (status.ok()) return 0;
  log::Error(status.message(), {{"code", absl::StatusCodeToString(status.code())}});
  return absl::IsInvalidArgument(status) ? kUsage : kFailed;
}

}  // namespace adaptdl::service
