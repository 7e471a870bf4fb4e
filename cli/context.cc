#include "cli/context.h"

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "libs/service/flags.h"

namespace adaptdl::cli {
namespace {

constexpr absl::string_view kUsagePayload = "adaptdl.cli/usage";

}  // namespace

absl::Status UsageError(absl::string_view text) {
  absl::Status status = absl::InvalidArgumentError(text);
  status.SetPayload(kUsagePayload, absl::Cord());
  return status;
}

bool IsUsageError(const absl::Status& status) { return status.GetPayload(kUsagePayload).has_value(); }

absl::StatusOr<JobReference> ParseJobReference(const Context& context, absl::string_view text) {
  const std::vector<std::string> parts = absl::StrSplit(text, '/');
  if (parts.size() == 1 && !parts[0].empty()) {
    return JobReference{context.Namespace(), parts[0]};
  }
  if (parts.size() == 2 && !parts[0].empty() && !parts[1].empty()) return JobReference{parts[0], parts[1]};
  return UsageError(absl::StrCat("\"", text, "\" is no job; write NAME or NAMESPACE/NAME"));
}

absl::StatusOr<std::pair<std::string, std::string>> ParseKeyValue(absl::string_view flag,
                                                                  absl::string_view text) {
  const size_t equals = text.find('=');
  if (equals == 0 || equals == absl::string_view::npos) {
    return UsageError(absl::StrCat(flag, " ", text, ": write KEY=VALUE"));
  }
  return std::make_pair(std::string(text.substr(0, equals)), std::string(text.substr(equals + 1)));
}

CLI::Option* AddDuration(CLI::App& app, const std::string& name, absl::Duration* value,
                         const std::string& help, absl::Duration minimum) {
  CLI::Option* option = service::AddDurationFlag(app, name, value, help, minimum);
  // The environment variables of servers are none of the command's.
  return option->envname("");
}

std::string HomeFolder() {
  const char* folder = std::getenv("ADAPTDL_HOME");
  if (folder != nullptr && *folder != '\0') return folder;
  const char* home = std::getenv("HOME");
  return absl::StrCat(home != nullptr && *home != '\0' ? home : ".", "/.adaptdl");
}

}  // namespace adaptdl::cli
