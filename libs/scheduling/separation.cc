#include "libs/scheduling/separation.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace adaptdl::scheduling {
namespace {

// Each in both orders.
std::set<std::pair<std::string, std::string>> Pairs(const ClusterView& view) {
  std::set<std::pair<std::string, std::string>> pairs;
  for (const NodeInfo& node : view.nodes) {
    for (const std::string& other : node.unreachable) {
      pairs.emplace(node.id, other);
      pairs.emplace(other, node.id);
    }
  }
  return pairs;
}

// The largest size that the job may have, up to `most`. 0: none.
int LargestSize(const JobInfo& job, int most) {
  if (job.allowed_replicas.empty()) return most >= job.min_replicas ? std::min(most, job.max_replicas) : 0;
  int largest = 0;
  for (const int size : job.allowed_replicas) {
    if (size <= most) largest = std::max(largest, size);
  }
  return largest;
}

// Nodes of the allocation that reach each other: those with most replicas first, of equals those where the
// job is.
std::set<std::string> Together(const std::set<std::pair<std::string, std::string>>& pairs, const JobInfo& job,
                               const std::vector<std::string>& allocation, std::string* left_out) {
  std::map<std::string, int> replicas;
  for (const std::string& node : allocation) ++replicas[node];
  std::vector<std::string> nodes;
  for (const auto& [node, count] : replicas) nodes.push_back(node);
  const auto held = [&](const std::string& node) {
    return std::count(job.allocation.begin(), job.allocation.end(), node);
  };
  std::stable_sort(nodes.begin(), nodes.end(), [&](const std::string& a, const std::string& b) {
    return std::pair(replicas[a], held(a)) > std::pair(replicas[b], held(b));
  });
  std::set<std::string> together;
  for (const std::string& node : nodes) {
    const auto apart = std::find_if(together.begin(), together.end(), [&](const std::string& other) {
      return pairs.count({node, other}) > 0;
    });
    if (apart == together.end()) {
      together.insert(node);
    } else {
      absl::StrAppend(left_out, "; not on node ", node, " as well, which node ", *apart, " does not reach");
    }
  }
  return together;
}

}  // namespace

void Separate(const ClusterView& view, Decision* decision) {
  const std::set<std::pair<std::string, std::string>> pairs = Pairs(view);
  if (pairs.empty()) return;
  for (size_t i = 0; i < decision->jobs.size(); ++i) {
    const JobInfo& job = view.jobs[i];
    JobDecision& decided = decision->jobs[i];
    if (!job.preemptible && !job.allocation.empty()) continue;
    std::string left_out;
    const std::set<std::string> together = Together(pairs, job, decided.allocation, &left_out);
    if (left_out.empty()) continue;
    std::erase_if(decided.allocation, [&](const std::string& node) { return together.count(node) == 0; });
    decided.allocation.resize(LargestSize(job, static_cast<int>(decided.allocation.size())));
    absl::StrAppend(&decided.reason, left_out);
  }
}

}  // namespace adaptdl::scheduling
