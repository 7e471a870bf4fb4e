#include "libs/jobs/descriptions.h"

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace adaptdl::jobs {

std::string Plural(int count) { return absl::StrCat(count, count == 1 ? " replica" : " replicas"); }

std::string DescribeNodes(const std::vector<std::string>& nodes) {
  const std::set<std::string> distinct(nodes.begin(), nodes.end());
  return absl::StrCat(Plural(static_cast<int>(nodes.size())), " on ", absl::StrJoin(distinct, ", "));
}

std::string Rounded(absl::Duration duration) {
  return absl::FormatDuration(absl::Trunc(duration, absl::Milliseconds(1)));
}

std::string Because(absl::string_view reason) { return reason.empty() ? "" : absl::StrCat(": ", reason); }

}  // namespace adaptdl::jobs
