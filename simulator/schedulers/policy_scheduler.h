// Runs an allocation policy of libs/scheduling, the very object that the live allocator runs, on simulated
// jobs.
//
// The policy sees what a live one sees: speed-ups by the model that each job has fitted to its own
// measurements, at most twice the replicas that a job has measured, one GPU per replica. Node ids sort in the
// order of the cluster.
//
// Not thread-safe.

#ifndef ADAPTDL_SIMULATOR_SCHEDULERS_POLICY_SCHEDULER_H_
#define ADAPTDL_SIMULATOR_SCHEDULERS_POLICY_SCHEDULER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "libs/scheduling/policy.h"
#include "simulator/schedulers/scheduler.h"

namespace adaptdl::simulator {

class PolicyScheduler final : public Scheduler {
 public:
  // The policy gets `seed` in its first decision, and one more in each that follows.
  PolicyScheduler(std::unique_ptr<const scheduling::AllocationPolicy> policy, uint64_t seed)
      : policy_(std::move(policy)), seed_(seed) {}

  bool adaptive() const override { return true; }

  // INVALID_ARGUMENT: the cluster has several GPU types, which policies can't tell apart.
  absl::StatusOr<std::vector<Placement>> Schedule(const Situation& situation) override;

 private:
  // A table, and what it was made from.
  struct CachedSpeedup {
    int profile_version = -1;
    int max_replicas = 0;
    goodput::GradParams gradient;
    std::shared_ptr<const goodput::SpeedupTable> table;
  };

  void PrepareNodes(const Cluster& cluster);
  scheduling::JobInfo Describe(const Job& job, const Situation& situation);
  std::shared_ptr<const goodput::SpeedupTable> Speedup(const Job& job, int max_replicas);
  absl::StatusOr<Placement> ToPlacement(const scheduling::JobDecision& decision) const;

  const std::unique_ptr<const scheduling::AllocationPolicy> policy_;
  uint64_t seed_;
  std::vector<scheduling::NodeInfo> nodes_;
  std::map<std::string, int> node_index_;  // by id
  std::map<const Job*, CachedSpeedup> speedups_;
};

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_SIMULATOR_SCHEDULERS_POLICY_SCHEDULER_H_
