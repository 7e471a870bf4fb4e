#include "libs/jobfile/names.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/jobfile/checker.h"

namespace adaptdl::jobfile {
namespace {

bool IsLabelCharacter(char c) { return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-'; }

}  // namespace

absl::Status CheckLabelName(absl::string_view name, absl::string_view what) {
  if (!name.empty() && name.size() <= 63 && std::all_of(name.begin(), name.end(), IsLabelCharacter) &&
      name.front() != '-' && name.back() != '-') {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(what, " must be 1 to 63 lower-case letters, digits and hyphens, ",
                   "with a letter or digit at both ends, not ", Quoted(name),
                   name.size() > 63 ? absl::StrCat(" (", name.size(), " characters)") : ""));
}

absl::Status CheckNamePrefix(absl::string_view prefix, absl::string_view what) {
  if (!prefix.empty() && prefix.size() <= 57 && std::all_of(prefix.begin(), prefix.end(), IsLabelCharacter) &&
      prefix.front() != '-') {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(what, " must be 1 to 57 lower-case letters, digits and hyphens, ",
                   "with a letter or digit at its start, not ", Quoted(prefix),
                   prefix.size() > 57 ? absl::StrCat(" (", prefix.size(), " characters)") : ""));
}

}  // namespace adaptdl::jobfile
