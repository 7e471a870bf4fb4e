#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/client.h"
#include "cli/commands/commands.h"
#include "cli/format.h"
#include "cli/output.h"

namespace adaptdl::cli {
namespace {

absl::StatusOr<int> WhoAmI(const Context& context) {
  Client client(context);
  const absl::StatusOr<v1::WhoAmIResponse> answer = client.Call(&Admin::WhoAmI, v1::WhoAmIRequest());
  if (!answer.ok()) return answer.status();
  if (context.format != Format::kTable) {
    PrintDocument(context, ToJson(*answer));
    return kExitOk;
  }
  const std::string namespaces = absl::StrJoin(answer->namespaces(), ", ");
  Print(Printable(absl::StrCat(answer->name(), ": ", answer->role(), ", namespaces ",
                               namespaces.empty() ? "none" : namespaces)) +
        "\n");
  return kExitOk;
}

}  // namespace

void AddWhoAmI(CLI::App& app, Context* context) {
  app.add_subcommand("whoami", "Show who the supervisor takes you for, and what you may do")
      ->callback([context] { context->action = [context] { return WhoAmI(*context); }; });
}

}  // namespace adaptdl::cli
