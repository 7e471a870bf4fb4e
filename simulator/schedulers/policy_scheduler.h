// Runs an allocation policy of libs/scheduling, the very object that the live allocator runs, on simulated
// jobs.
//
// The policy sees what a live one sees: speed-ups by the model that each job has fitted to its own
// measurements, at most twice the replicas that a job has measured, one GPU per replica. Node ids sort in the
// order of the cluster.
//
// GPU types: a job has a model for each type that it has run on. On others it is taken to scale as on the
// type that it has measured most, its speed in proportion to the application's throughput on a single GPU, as
// in Sia's simulator.
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
  // The policy gets `seed` in its first decision, and one more in each that follows. `knows_gpu_types`: it
  // tells GPU types apart, and never mixes them in a job.
  PolicyScheduler(std::unique_ptr<const scheduling::AllocationPolicy> policy, uint64_t seed,
                  bool knows_gpu_types = false)
      : policy_(std::move(policy)), seed_(seed), knows_gpu_types_(knows_gpu_types) {}

  bool adaptive() const override { return true; }

  // INVALID_ARGUMENT: the cluster has several GPU types, which the policy can't tell apart. INTERNAL: the
  // policy named a node that is not there, or forgot a job.
  absl::StatusOr<std::vector<Placement>> Schedule(const Situation& situation) override;

 private:
  using Table = std::shared_ptr<const goodput::SpeedupTable>;

  // A job's tables, and what they were made from.
  struct CachedSpeedups {
    int profile_version = -1;
    int max_replicas = 0;
    goodput::GradParams gradient;
    std::vector<Table> tables;  // by GPU type; one if all are equal
  };

  void PrepareNodes(const Cluster& cluster);
  scheduling::JobInfo Describe(const Job& job, const Situation& situation);
  const std::vector<Table>& Speedups(const Job& job, const Cluster& cluster, int max_replicas);
  absl::StatusOr<Placement> ToPlacement(const scheduling::JobDecision& decision) const;

  const std::unique_ptr<const scheduling::AllocationPolicy> policy_;
  uint64_t seed_;
  const bool knows_gpu_types_;
  std::vector<scheduling::NodeInfo> nodes_;
  std::map<std::string, int> node_index_;  // by id
  std::map<const Job*, CachedSpeedups> speedups_;
};

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_SIMULATOR_SCHEDULERS_POLICY_SCHEDULER_H_
