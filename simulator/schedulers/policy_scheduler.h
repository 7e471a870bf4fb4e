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
#include <unordered_map>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "libs/pastwork/past_work.h"
#include "libs/scheduling/job_demand.h"
#include "libs/scheduling/policy.h"
#include "simulator/schedulers/scheduler.h"

namespace adaptdl::simulator {

// What the policy is told of the work that jobs have left, once they have measured themselves.
enum class RemainingWork {
  // All of it.
  kKnown = 0,
  // Nothing.
  kUnknown = 1,
  // What finished jobs of the same application took: nothing at first.
  kHistory = 2,
};

class PolicyScheduler final : public Scheduler {
 public:
  struct Options {
    // The policy gets it in its first decision, and one more in each that follows.
    uint64_t seed = 1;
    RemainingWork remaining_work = RemainingWork::kKnown;
    // What jobs took that were done before, in samples, by application.
    std::map<std::string, pastwork::PastWork> past = {};
  };

  PolicyScheduler(std::unique_ptr<const scheduling::AllocationPolicy> policy, const Options& options)
      : policy_(std::move(policy)), options_(options), seed_(options.seed), past_(options.past) {}

  bool adaptive() const override { return true; }

  // INVALID_ARGUMENT: the cluster has several GPU types, which the policy can't tell apart. INTERNAL: the
  // policy named a node that is not there, or forgot a job.
  absl::StatusOr<std::vector<Placement>> Schedule(const Situation& situation) override;
  bool knows_demand() const override { return true; }
  NodeDemand Demand() const override;

 private:
  using Table = std::shared_ptr<const goodput::SpeedupTable>;

  // A job's tables, and what they were made from.
  struct CachedSpeedups {
    int profile_version = -1;
    goodput::GradParams gradient;
    std::vector<BatchBounds> bounds;  // by GPU type
    std::vector<Table> tables;        // by GPU type; one if all are equal
    // Samples per second at speed-up 1. 0: unknown.
    double unit = 0;
  };

  void PrepareNodes(const Cluster& cluster);
  // Sets the nodes of the view: those that are up.
  void DescribeNodes(const Situation& situation);
  scheduling::JobInfo Describe(const SimulatedJob& job, const Situation& situation);
  const CachedSpeedups& Speedups(const SimulatedJob& job, const Cluster& cluster);
  // Forgets the tables of jobs that are done, once they are the most.
  void ForgetOthers(const Situation& situation);
  // Learns from jobs that are done since the last decision.
  void KeepHistory(const Situation& situation);
  absl::StatusOr<Placement> ToPlacement(const scheduling::JobDecision& decision) const;

  const std::unique_ptr<const scheduling::AllocationPolicy> policy_;
  const Options options_;
  uint64_t seed_;
  std::vector<scheduling::NodeInfo> nodes_;
  absl::flat_hash_map<std::string, int> node_index_;  // by id
  std::vector<scheduling::NodeKind> kinds_;           // by GPU type
  // Of the last decision.
  scheduling::ClusterView view_;
  std::vector<NodeStatus> status_;  // as the nodes of the view are described
  scheduling::Decision decision_;
  std::unordered_map<const SimulatedJob*, CachedSpeedups> speedups_;
  // Jobs of the last situation, and the samples that those which are done took, by application.
  std::vector<const SimulatedJob*> present_;
  std::map<std::string, pastwork::PastWork> past_;
};

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_SIMULATOR_SCHEDULERS_POLICY_SCHEDULER_H_
