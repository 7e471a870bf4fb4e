#include "simulator/placement_check.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/scheduling/resources.h"

namespace adaptdl::simulator {
namespace {

// Takes what so many replicas need from `left`. False: there is less.
bool Take(const scheduling::Resources& request, int replicas, scheduling::Resources* left) {
  for (const auto& [name, amount] : request) {
    if (((*left)[name] -= amount * replicas) < 0) {
      return false;
    }
  }
  return true;
}

}  // namespace

absl::Status CheckPlacements(const Situation& situation, absl::Span<const Placement> placements) {
  if (placements.size() != situation.jobs.size()) {
    return absl::InternalError(
        absl::StrCat("the scheduler placed ", placements.size(), " jobs; there are ", situation.jobs.size()));
  }
  const std::vector<Cluster::Node>& nodes = situation.cluster.nodes();
  std::vector<scheduling::Resources> left;
  for (int node = 0; node < static_cast<int>(nodes.size()); ++node) {
    left.push_back(situation.StatusOf(node).up ? nodes[node].capacity : scheduling::Resources());
  }
  for (size_t i = 0; i < placements.size(); ++i) {
    const WorkloadJob& job = situation.jobs[i]->spec();
    for (const NodeShare& share : placements[i]) {
      if (share.node < 0 || share.node >= static_cast<int>(left.size()) || share.gpus < 1 ||
          !Take(job.demand.request, share.gpus, &left[share.node])) {
        return absl::InternalError(absl::StrCat("the scheduler placed ", share.gpus, " replicas of ",
                                                job.name, " on node ", share.node,
                                                ", which has no room for so many"));
      }
      if (nodes[share.node].type != nodes[placements[i].front().node].type) {
        return absl::InternalError(absl::StrCat("the scheduler mixed GPU types for ", job.name));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace adaptdl::simulator
