#include "libs/jobs/planning.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace adaptdl::jobs {
namespace {

bool Before(const PlanMember& a, const PlanMember& b) {
  return std::tie(a.replica_id, a.node) < std::tie(b.replica_id, b.node);
}

}  // namespace

bool SameNodes(std::vector<std::string> a, std::vector<std::string> b) {
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  return a == b;
}

std::vector<std::string> NodesOf(const std::vector<PlanMember>& members) {
  std::vector<std::string> nodes;
  nodes.reserve(members.size());
  for (const PlanMember& member : members) nodes.push_back(member.node);
  return nodes;
}

bool AllowsSize(const Job& job, int size) {
  if (size < std::max(1, job.min_replicas)) return false;
  if (job.max_replicas > 0 && size > job.max_replicas) return false;
  const auto& allowed = job.allowed_replicas;
  return allowed.empty() || std::binary_search(allowed.begin(), allowed.end(), size);
}

int LargestAllowedSize(const Job& job, int limit) {
  while (limit > 0 && !AllowsSize(job, limit)) --limit;
  return limit;
}

Target ChooseMembers(const std::vector<PlanMember>& current, const std::vector<PlanMember>& ready,
                     const std::vector<std::string>& desired, bool may_launch) {
  std::map<std::string, int> wanted;
  for (const std::string& node : desired) ++wanted[node];
  Target target;
  for (const PlanMember& member : current) {
    if (wanted[member.node] == 0) continue;
    --wanted[member.node];
    target.members.push_back(member);
  }
  if (target.members.empty()) target.members = current;
  target.survivors = static_cast<int>(target.members.size());
  for (const PlanMember& newcomer : ready) {
    if (wanted[newcomer.node] == 0) continue;
    --wanted[newcomer.node];
    target.members.push_back(newcomer);
  }
  if (!may_launch) return target;
  for (const auto& [node, count] : wanted) {
    for (int i = 0; i < count; ++i) target.members.push_back({"", node});
  }
  return target;
}

bool IsPlanFor(const Plan& plan, const Target& target) {
  if (plan.members.size() != target.members.size()) return false;
  std::vector<PlanMember> a = plan.members;
  std::vector<PlanMember> b = target.members;
  std::sort(a.begin() + target.survivors, a.end(), Before);
  std::sort(b.begin() + target.survivors, b.end(), Before);
  return a == b;
}

}  // namespace adaptdl::jobs
