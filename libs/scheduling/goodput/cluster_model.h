// The cluster as the goodput policy sees it: pools of nodes with one GPU type, and how many units of a pool
// each job takes.
//
// A unit is the part of a node that one replica takes, or a common divisor of such parts where jobs differ: a
// node of 4 GPUs has 4 units, and a replica with one GPU takes one of them. Where cores or memory run out
// before the GPUs do, a replica takes correspondingly more. Nodes without GPUs are a pool of their own. A
// pool's nodes are measured against the largest one. What jobs hold that can't be moved is taken off from the
// start.
//
// Nodes, jobs and pools are indices; the view must outlive the model. Immutable once made; thread-safe.

#ifndef ADAPTDL_LIBS_SCHEDULING_GOODPUT_CLUSTER_MODEL_H_
#define ADAPTDL_LIBS_SCHEDULING_GOODPUT_CLUSTER_MODEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "libs/scheduling/placement.h"
#include "libs/scheduling/policy.h"

namespace adaptdl::scheduling {

struct Pool {
  std::string gpu_type;
  // Those that take replicas, in order of id.
  std::vector<int> nodes;
  // The most that one of them offers, by resource. Of nodes without GPUs, no more than replicas of one job can take there: what no
  // job could use is not scarce.
  std::vector<int64_t> reference;
  // What they offer, each kind of node once.
  std::vector<std::vector<int64_t>> kinds;
  int units_per_node = 1;
  // Units that are not taken by jobs that stay where they are.
  int capacity = 0;
};

// What a job is to the queue; see goodput/queue.h.
enum class QueueRole {
  // Has measured itself, or had the time to: competes by what is gained.
  kCompetes,
  // Runs, and has not measured itself: keeps its place.
  kKeepsPlace,
  // Waits, and has not measured itself.
  kNewcomer,
};

struct JobModel {
  // What one replica needs, by resource.
  std::vector<int64_t> need;
  // What it has now, on nodes that it can keep.
  Placement present;
  // Its pool; -1: it has nothing.
  int present_pool = -1;
  // Whether it keeps what it has in any case.
  bool pinned = false;
  // Whether all that it was given is still there, is of a size that it may have, and can stay.
  bool can_stay = false;
  // Replicas that an empty node holds, the largest for this job, by pool.
  std::vector<int> per_node;
  QueueRole queue_role = QueueRole::kCompetes;
};

// Time in which a job that uses the training library is to measure itself, in seconds of running, all its
// runs together: five minutes, and ten, twenty, ... more each time that it is started again. Until then it
// keeps its place.
double MeasuringSeconds(const JobInfo& job);

// What so many replicas take of their namespace's quota: their GPUs, or one each if they have none.
int GpusOf(const JobInfo& job, int replicas);

class ClusterModel {
 public:
  explicit ClusterModel(const ClusterView& view);

  const ClusterView& view() const { return view_; }
  const std::vector<Pool>& pools() const { return pools_; }
  const JobModel& job(int index) const { return jobs_[index]; }
  int job_count() const { return static_cast<int>(jobs_.size()); }
  int node_count() const { return static_cast<int>(node_pool_.size()); }
  int resources() const { return static_cast<int>(names_.size()); }
  // Whether jobs whose units are there always find room for them in pieces of full nodes: all nodes of a pool
  // are equal, and all jobs need the same.
  bool exact_units() const { return exact_units_; }
  // -1: the node takes no replicas.
  int pool_of(int node) const { return node_pool_[node]; }
  // What the node offers less what pinned jobs hold there, by resource; may be negative.
  const int64_t* free(int node) const { return &free_[static_cast<size_t>(node) * names_.size()]; }

  bool NeedsGpu(int job) const { return jobs_[job].need[gpu_] > 0; }

  // Units of a node of the pool that so much of its resources makes up: of its GPUs, where it has any, else
  // of what is scarcest.
  int UnitsIn(int pool, const int64_t* left) const;

  // Units that so many replicas take of a pool; more than it has if they can't be there.
  int UnitsOf(int job, int pool, int replicas) const;

  // Fewest nodes of the pool that hold so many replicas.
  int NodesFor(int job, int pool, int replicas) const {
    const int per_node = jobs_[job].per_node[pool];
    return (replicas + per_node - 1) / per_node;
  }

  const goodput::SpeedupTable& Table(int job, int pool) const {
    return *tables_[static_cast<size_t>(job) * pools_.size() + pool];
  }

  // Replicas that the job would have if all jobs that could use them had an equal part of the cluster; at
  // least a part of one.
  double FairShare(int job) const;

  // Speed-up of the job with replicas on so many nodes of a pool.
  double Speedup(int job, int pool, int nodes, int replicas) const {
    return Table(job, pool).At(nodes, replicas);
  }

  // Speed-up of the job at a place. 0 if it is nowhere, or on a node that takes no replicas.
  double SpeedupAt(int job, const Placement& placement) const {
    if (placement.empty() || node_pool_[placement.front().node] < 0) return 0;
    return Speedup(job, node_pool_[placement.front().node], static_cast<int>(placement.size()),
                   CountReplicas(placement));
  }

  // Whether the job could have a larger size in the pool once it has measured this one.
  bool Opens(int job, int pool, int replicas) const {
    return replicas == view_.jobs[job].max_replicas && replicas < Table(job, pool).max_replicas() &&
           replicas < jobs_[job].per_node[pool] * static_cast<int>(pools_[pool].nodes.size());
  }

  // Whether the job may have this size: within its bounds, and one of the allowed.
  bool Allows(int job, int replicas) const;

 private:
  void MakePools();
  void ReadJob(int index);
  // Of a pool without GPUs: its reference, without what nobody could use.
  void CutReference(int pool);
  void MeasureUnits();

  const ClusterView& view_;
  std::vector<std::string> names_;  // of the resources
  bool exact_units_ = true;
  size_t gpu_ = 0;  // their index of the GPUs
  std::vector<Pool> pools_;
  std::vector<JobModel> jobs_;
  std::vector<int> node_pool_;
  std::vector<int64_t> free_;
  std::vector<const goodput::SpeedupTable*> tables_;  // by job and pool
};

}  // namespace adaptdl::scheduling

#endif  // ADAPTDL_LIBS_SCHEDULING_GOODPUT_CLUSTER_MODEL_H_
