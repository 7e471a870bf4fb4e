#include "simulator/placement_check.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/scheduling/resources.h"

namespace adaptdl::simulator {
namespace {

// What nodes have left, by the resources that jobs ask for.
class Left {
 public:
  explicit Left(const Situation& situation) {
    std::set<std::string> names;
    for (const SimulatedJob* job : situation.jobs) {
      for (const auto& [name, amount] : job->spec().demand.request) names.insert(name);
    }
    const std::vector<Cluster::Node>& nodes = situation.cluster.nodes();
    for (const std::string& name : names) {
      std::vector<int64_t>& left = left_[name];
      left.assign(nodes.size(), 0);
      for (size_t node = 0; node < nodes.size(); ++node) {
        const auto offered = nodes[node].capacity.find(name);
        const bool offers =
            offered != nodes[node].capacity.end() && situation.StatusOf(static_cast<int>(node)).up;
        if (offers) left[node] = offered->second;
      }
    }
  }

  // Takes what so many replicas need from a node. False: there is less.
  bool Take(const scheduling::Resources& request, const NodeShare& share) {
    return std::all_of(request.begin(), request.end(), [&](const auto& needed) {
      std::vector<int64_t>& left = left_.at(needed.first);
      return (left[share.node] -= needed.second * share.gpus) >= 0;
    });
  }

 private:
  std::map<std::string, std::vector<int64_t>> left_;  // by node
};

}  // namespace

absl::Status CheckPlacements(const Situation& situation, absl::Span<const Placement> placements) {
  if (placements.size() != situation.jobs.size()) {
    return absl::InternalError(
        absl::StrCat("the scheduler placed ", placements.size(), " jobs; there are ", situation.jobs.size()));
  }
  const std::vector<Cluster::Node>& nodes = situation.cluster.nodes();
  Left left(situation);
  for (size_t i = 0; i < placements.size(); ++i) {
    const WorkloadJob& job = situation.jobs[i]->spec();
    for (const NodeShare& share : placements[i]) {
      if (share.node < 0 || share.node >= static_cast<int>(nodes.size()) || share.gpus < 1 ||
          !left.Take(job.demand.request, share)) {
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
