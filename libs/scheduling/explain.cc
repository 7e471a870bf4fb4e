#include "libs/scheduling/explain.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "libs/scheduling/cluster_state.h"
#include "libs/scheduling/growth.h"
#include "libs/scheduling/policy.h"
#include "libs/scheduling/resources.h"

namespace adaptdl::scheduling {
namespace {

std::string Replicas(int count) { return absl::StrCat(count, count == 1 ? " replica" : " replicas"); }

}  // namespace

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
    return absl::StrCat("one replica needs ", DescribeAmount(name, amount), "; the largest node offers ",
                        DescribeAmount(name, largest));
  }
  return absl::StrCat("one replica needs ", Describe(job.request),
                      " on one node; no node offers all of that");
}

std::string WhyWaiting(int job, const ClusterState& state, bool behind_earlier) {
  const JobInfo& info = state.job(job);
  const int needed = StartSize(info);
  int possible = 0;
  int usable = 0;
  for (int node = 0; node < state.node_count(); ++node) {
    if (!state.usable(node)) continue;
    ++usable;
    possible += state.Capacity(job, node);
  }
  if (usable == 0) return "waits for a node: the cluster has none that takes replicas";
  if (possible < needed) {
    return absl::StrCat("waits: needs ", Replicas(needed), " at once, and the whole cluster holds ",
                        possible);
  }
  if (behind_earlier) {
    return "waits: a job that was submitted earlier has not got its minimum yet, and this one could not be "
           "moved "
           "out of its way";
  }
  return absl::StrCat("waits for room for ", Replicas(needed), " of ", Describe(info.request),
                      ": the nodes are taken by jobs that were submitted earlier or can't be moved");
}

namespace {

// For a job that may have certain sizes only.
std::string WhyNotTheNextSize(int job, const ClusterState& state, int next, const GrowthOptions& options) {
  const int more = next - state.replicas(job);
  const std::string subject = absl::StrCat(more, " more, the next size that it may have,");
  int room = 0;
  for (int node = 0; node < state.node_count(); ++node) room += state.RoomFor(job, node, Room::kAny);
  if (state.Speedup(job, 2, next) - state.Speedup(job) < more * options.least_gain) {
    return absl::StrCat(subject, " would not make it faster");
  }
  if (room < more) return absl::StrCat("there is no room for ", subject, " on the nodes");
  return absl::StrCat(subject, " gain less than re-scaling costs");
}

}  // namespace

std::string WhyThisSize(int job, const ClusterState& state, bool pinned, const GrowthOptions& options) {
  const JobInfo& info = state.job(job);
  const int replicas = state.replicas(job);
  const int span = static_cast<int>(state.placement(job).size());
  const double speedup = state.Speedup(job);
  std::string size = absl::StrCat(Replicas(replicas), " on ", span, span == 1 ? " node" : " nodes");
  if (replicas > 1) absl::StrAppend(&size, absl::StrFormat(", %.1f times as fast as one", speedup));
  absl::StrAppend(&size, ": ");
  if (pinned) return absl::StrCat(size, "the job is not preemptible and stays as it was started");
  if (replicas >= info.max_replicas) {
    return absl::StrCat(
        size, info.max_replicas_reason.empty() ? "the most that it may have" : info.max_replicas_reason);
  }
  // One more, or as many as the next size needs that the job may have.
  const auto next = std::upper_bound(info.allowed_replicas.begin(), info.allowed_replicas.end(), replicas);
  if (next != info.allowed_replicas.end() && *next > replicas + 1 && *next <= info.max_replicas) {
    return absl::StrCat(size, WhyNotTheNextSize(job, state, *next, options));
  }
  bool room = false;
  bool room_on_own = false;
  for (int node = 0; node < state.node_count(); ++node) {
    if (!state.HasRoom(job, node, 1, Room::kAny)) continue;
    room = true;
    room_on_own |= state.replicas_on(job, node) > 0;
  }
  const double on_own = state.Speedup(job, span, replicas + 1) - speedup;
  const double elsewhere = state.Speedup(job, span + 1, replicas + 1) - speedup;
  const double gain = !room || room_on_own ? on_own : elsewhere;
  if (gain < options.least_gain) return absl::StrCat(size, "another replica would not make it faster");
  if (room) return absl::StrCat(size, "another replica gains less than re-scaling costs");
  return absl::StrCat(size,
                      "there is no room for another; the other nodes are taken by jobs that need or use them "
                      "more");
}

}  // namespace adaptdl::scheduling
