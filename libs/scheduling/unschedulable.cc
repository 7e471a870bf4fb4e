#include "libs/scheduling/unschedulable.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/scheduling/policy.h"
#include "libs/scheduling/resources.h"

namespace adaptdl::scheduling {

std::string WhyUnschedulable(const JobInfo& job, const ClusterView& view) {
  if (view.nodes.empty()) return "";
  for (const NodeInfo& node : view.nodes) {
    if (TimesThatFit(job.request, node.capacity, 1) > 0) return "";
  }
  // Name a resource that is too small everywhere, if there is one; else the node that lacks least.
  for (const auto& [name, amount] : job.request) {
    int64_t largest = 0;
    for (const NodeInfo& node : view.nodes) {
      const auto offered = node.capacity.find(name);
      if (offered != node.capacity.end()) largest = std::max(largest, offered->second);
    }
    if (amount <= largest) continue;
    if (IsPlace(name)) {
      return absl::StrCat("there is no node that it may be placed on: ",
                          absl::StripPrefix(name, kPlacePrefix));
    }
    return absl::StrCat("one replica needs ", DescribeAmount(name, amount), "; the largest node offers ",
                        DescribeAmount(name, largest));
  }
  return absl::StrCat("one replica needs ", Describe(job.request),
                      " on one node; no node offers all of that");
}

}  // namespace adaptdl::scheduling
