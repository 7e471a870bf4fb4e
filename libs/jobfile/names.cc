#include "libs/jobfile/names.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/jobfile/checker.h"
#include "libs/jobspec/checks.h"
#include "libs/jobspec/limits.h"

namespace adaptdl::jobfile {
absl::Status CheckLabelName(absl::string_view name, absl::string_view what) {
  if (jobspec::IsDnsLabel(name)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      what, " must be 1 to 63 lower-case letters, digits and hyphens, ",
      "with a letter or digit at both ends, not ", Quoted(name),
      name.size() > jobspec::kMaxNameLength ? absl::StrCat(" (", name.size(), " characters)") : ""));
}

absl::Status CheckNamePrefix(absl::string_view prefix, absl::string_view what) {
  if (jobspec::IsNamePrefix(prefix)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      what, " must be 1 to 57 lower-case letters, digits and hyphens, ",
      "with a letter or digit at its start, not ", Quoted(prefix),
      prefix.size() > jobspec::kMaxPrefixLength ? absl::StrCat(" (", prefix.size(), " characters)") : ""));
}

}  // namespace adaptdl::jobfile
