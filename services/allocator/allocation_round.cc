#include "services/allocator/allocation_round.h"

#include <algorithm>
#include <string>
#include <utility>

#include "services/allocator/snapshot_converter.h"

namespace adaptdl::allocator {
namespace {

bool SameNodes(const v1::Job& job, const v1::JobAllocation& allocation) {
  const auto& before = job.status().desired_allocation();
  return std::equal(before.begin(), before.end(), allocation.node_ids().begin(), allocation.node_ids().end());
}

}  // namespace

RoundResult AllocationRound::Decide(const v1::ClusterSnapshot& snapshot) {
  ConvertedCluster cluster = converter_.Convert(snapshot);
  scheduling::Decision decision = policy_.Decide(cluster.view, seed_);
  RoundResult result;
  result.request.set_snapshot_version(snapshot.version());
  result.jobs = {{"running", 0}, {"waiting", 0}, {"unschedulable", 0}, {"refused", 0}};
  result.jobs["refused"] = snapshot.jobs_size() - static_cast<int>(cluster.job_index.size());
  for (size_t i = 0; i < decision.jobs.size(); ++i) {
    const scheduling::JobDecision& decided = decision.jobs[i];
    const v1::Job& job = snapshot.jobs(cluster.job_index[i]);
    const bool waits = decided.allocation.empty();
    ++result.jobs[decided.unschedulable ? "unschedulable" : waits ? "waiting" : "running"];
    v1::JobAllocation allocation;
    allocation.set_namespace_(job.namespace_());
    allocation.set_name(job.name());
    allocation.set_job_uid(job.uid());
    allocation.mutable_node_ids()->Add(decided.allocation.begin(), decided.allocation.end());
    allocation.set_reason(decided.reason);
    allocation.set_unschedulable(decided.unschedulable);
    if (!IsNews(job, allocation)) continue;
    if (!SameNodes(job, allocation)) {
      result.moves.push_back({decided.key, job.status().desired_allocation_size(),
                              static_cast<int>(decided.allocation.size()), decided.reason});
    }
    *result.request.add_allocations() = std::move(allocation);
  }
  result.capacity = std::move(decision.capacity);
  result.refusals = std::move(cluster.refusals);
  return result;
}

bool AllocationRound::IsNews(const v1::Job& job, const v1::JobAllocation& allocation) const {
  if (!SameNodes(job, allocation)) return true;
  if (job.status().cancel_requested()) return false;
  if (job.status().allocation_reason() == allocation.reason()) return false;
  const auto applied = applied_reasons_.find(job.uid());
  return applied == applied_reasons_.end() || applied->second != allocation.reason();
}

void AllocationRound::Applied(const v1::ApplyAllocationsRequest& request) {
  // Only as large as the last rounds: what is forgotten is at worst sent twice.
  if (applied_reasons_.size() > 100'000) applied_reasons_.clear();
  for (const v1::JobAllocation& allocation : request.allocations()) {
    applied_reasons_[allocation.job_uid()] = allocation.reason();
  }
}

}  // namespace adaptdl::allocator
