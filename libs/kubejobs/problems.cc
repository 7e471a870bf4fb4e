#include "libs/kubejobs/problems.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace adaptdl::kubejobs {

std::string WithoutPlaces(absl::string_view message) {
  // An object is written as one line.
  const std::string first_line = absl::StrCat(kPlace, ":1: ");
  const std::string whole = absl::StrCat(kPlace, ": ");
  std::vector<std::string> lines;
  for (absl::string_view line : absl::StrSplit(message, '\n')) {
    if (!absl::ConsumePrefix(&line, first_line)) absl::ConsumePrefix(&line, whole);
    lines.emplace_back(line);
  }
  return absl::StrJoin(lines, "\n");
}

}  // namespace adaptdl::kubejobs
