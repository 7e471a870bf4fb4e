#include "libs/base/version.h"

#include "CLI/App.hpp"
#include "absl/strings/str_cat.h"
#include "cli/commands/commands.h"
#include "cli/output.h"

namespace adaptdl::cli {

void AddVersion(CLI::App& app, Context* context) {
  app.add_subcommand("version", "Print the version")->callback([context] {
    context->action = [context]() -> absl::StatusOr<int> {
      if (context->format == Format::kTable) {
        Print(absl::StrCat("adaptdl ", Version(), "\n"));
      } else {
        PrintDocument(*context, {{"version", Version()}});
      }
      return kExitOk;
    };
  });
}

}  // namespace adaptdl::cli
