// What every allocation policy is: a pure function from the cluster as it is to what it should be, and why.
//
//   GoodputPolicy policy({});
//   Decision decision = policy.Decide(view, /*seed=*/1);
//
// Policies are immutable: thread-safe. The view need not be alive after the call.

#ifndef ADAPTDL_LIBS_SCHEDULING_POLICY_H_
#define ADAPTDL_LIBS_SCHEDULING_POLICY_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/goodput/speedup_table.h"
#include "libs/scheduling/resources.h"

namespace adaptdl::scheduling {

struct JobInfo {
  // Unique. "namespace/name" by convention.
  std::string key;
  // What one replica needs.
  Resources request;
  // The job gets none or at least min_replicas (at least 1), and at most max_replicas (at least
  // min_replicas).
  int min_replicas = 1;
  int max_replicas = 1;
  // Why max_replicas is no larger, for people (for example "spec.maxReplicas is 4").
  std::string max_replicas_reason;
  // The largest size that it has measured: its speed beyond is expected. 0: none.
  int measured_replicas = 0;
  // Whether the job may be moved or re-scaled once it has replicas.
  bool preemptible = true;
  // The only sizes that it may have, ascending. Empty: every size from min_replicas to max_replicas.
  std::vector<int> allowed_replicas;
  // Its namespace, for quotas and weights. Empty: none.
  std::string name_space;
  // How much its speed-up counts, relative to other jobs. Greater than 0.
  double weight = 1;
  // Jobs of a higher priority take what they need first.
  int priority = 0;
  // Not null. Speed-up 0 at some size means that the job can't run at that size. Tables of all GPU types have
  // the same unit; by convention the speed of one replica on the type that the job knows best.
  std::shared_ptr<const goodput::SpeedupTable> speedup;
  // On GPU types that differ from the others.
  std::map<std::string, std::shared_ptr<const goodput::SpeedupTable>> speedup_by_type;
  // When the job was submitted.
  absl::Time created;
  // GPUs (replicas, where they have none) times time that it was given so far, in seconds.
  double attained_service = 0;
  // Times that it was re-scaled or moved.
  int restarts = 0;
  // What a change of its allocation costs: the time without progress, in seconds.
  double rescale_seconds = 30;
  // Whether it is being started, re-scaled or moved, and makes no progress yet.
  bool restarting = false;
  // Whether its program is known to use the training library: it measures itself, and writes a checkpoint
  // when it is stopped. Others are plain programs, or have not come so far yet.
  bool elastic = true;
  // Time that it has run so far, in all, in seconds.
  double run_seconds = 0;
  // What it would lose if it were stopped now: the time that it has run since its newest checkpoint, or since
  // it was started if there is none, in seconds. 0: it writes a checkpoint when it is stopped.
  double unsaved_seconds = 0;
  // Work done and work left, in seconds at speed-up 1, as far as the job knows.
  std::optional<double> done_seconds;
  std::optional<double> remaining_seconds;
  // What it counts as by the work that finished jobs of its kind took (past_work.h), in the same unit: a hint, for jobs
  // that do not know themselves.
  std::optional<double> expected_seconds;
  // When it is wanted to be done. Absent: no particular time. Nodes are made for it (job_demand.h); whom they are given
  // to is decided without it.
  std::optional<absl::Time> deadline;
  // Node of each replica by rank, as decided last. Empty: none. May name nodes that are gone.
  std::vector<std::string> allocation;
};

// The job's speed-ups on nodes of a GPU type.
inline const goodput::SpeedupTable& SpeedupOn(const JobInfo& job, const std::string& gpu_type) {
  if (job.speedup_by_type.empty()) return *job.speedup;
  const auto found = job.speedup_by_type.find(gpu_type);
  return found == job.speedup_by_type.end() ? *job.speedup : *found->second;
}

struct NodeInfo {
  // Unique.
  std::string id;
  // What it offers to replicas, in all.
  Resources capacity;
  // Model of the GPUs. Empty: none.
  std::string gpu_type;
  // Takes no new replicas; those it has are to go elsewhere.
  bool draining = false;
  // May be taken away at short notice.
  bool preemptible = false;
  // Ids of nodes that its replicas do not reach: no job is to have replicas on both (separation.h).
  std::vector<std::string> unreachable;
};

struct NamespaceInfo {
  // Most GPUs (replicas, where they have none) of all its jobs together. 0: no bound.
  int gpu_quota = 0;
  // How much its jobs count. Greater than 0.
  double weight = 1;
};

struct ClusterView {
  absl::Time now;
  // In order of submission.
  std::vector<JobInfo> jobs;
  // In order of id.
  std::vector<NodeInfo> nodes;
  // By name; those that are missing have no quota and weight 1.
  std::map<std::string, NamespaceInfo> namespaces;
  // Whether CapacityDecision::curve is asked for, which takes a part of the time of a decision.
  bool capacity_curve = true;
};

struct JobDecision {
  // As in the view.
  std::string key;
  // Node of each replica by rank. Empty: none. Replicas that stay keep their order.
  std::vector<std::string> allocation;
  // Why, for people. Says the same as long as the situation is the same.
  std::string reason;
  // Whether no node of the cluster could ever hold one replica; the reason then says what is lacking.
  bool unschedulable = false;
  // More about it, one sentence each, for people.
  std::vector<std::string> explanation;
  // Speed-up over one replica.
  double speedup = 0;
};

// How good a decision is by the policy's own measure, for policies that have one.
struct DecisionQuality {
  // What was selected.
  double objective = 0;
  // No selection is worth more.
  double bound = 0;
  // What the selection lost when it was placed on nodes.
  double placement_loss = 0;
};

// What a number of nodes could be used for, at best. capacity_curve.h has the formulas and their bounds.
struct CapacityPoint {
  // Nodes of the whole cluster.
  int nodes = 0;
  // Part of the nodes that is put to full use, in [0, 1] unless a job speeds up more than it gets replicas.
  double utility = 0;
  // The same, of the best use of a part of the last node.
  double marginal_use = 0;
  // Time until the last job ends that says how much work is left, in seconds. Absent: unknown, or it can't
  // run.
  std::optional<double> makespan_seconds;
};

struct CapacityDecision {
  // Nodes that would be made good use of, whatever can be had.
  int desired_nodes = 0;
  // Nodes that take replicas now (draining ones do not).
  int current_nodes = 0;
  // Why, for people.
  std::string reason;
  // Nodes that run nothing under this decision.
  std::vector<std::string> idle_nodes;
  // Nodes that all jobs take at their smallest sizes; at most desired_nodes, and that without a curve.
  int start_nodes = 0;
  // What other numbers of nodes would bring, ascending. Empty: it was not asked for, or
  // the policy does not say.
  std::vector<CapacityPoint> curve;
};

struct Decision {
  // One for each job of the view, in the same order.
  std::vector<JobDecision> jobs;
  CapacityDecision capacity;
  // Sum of the jobs' speed-ups.
  double value = 0;
  DecisionQuality quality;
};

class AllocationPolicy {
 public:
  virtual ~AllocationPolicy() = default;

  // For flags, logs and metrics.
  virtual absl::string_view name() const = 0;

  // Whether it tells GPU types apart, and never mixes them in a job.
  virtual bool knows_gpu_types() const { return false; }

  // Deterministic: the same view and seed give the same decision, bit by bit.
  virtual Decision Decide(const ClusterView& view, uint64_t seed) const = 0;
};

}  // namespace adaptdl::scheduling

#endif  // ADAPTDL_LIBS_SCHEDULING_POLICY_H_
