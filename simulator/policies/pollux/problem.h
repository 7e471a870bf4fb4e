// What the genetic search works on: jobs, nodes, and how fast each job is at each size, all as dense arrays.
//
// Jobs and nodes are named by their index here: jobs in order of their priority in repairs. `Problem` is a
// plain value; thread-safe once Finish() has run.

#ifndef ADAPTDL_SIMULATOR_POLICIES_POLLUX_PROBLEM_H_
#define ADAPTDL_SIMULATOR_POLICIES_POLLUX_PROBLEM_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace adaptdl::simulator::pollux {

// Replicas of one job on one node.
using Cell = int16_t;
// Jobs x nodes, job by job: an allocation.
using State = std::vector<Cell>;
using ConstRow = absl::Span<const Cell>;
using Row = absl::Span<Cell>;

// Which of the two published forms of the policy.
enum class Variant {
  // The artifact of OSDI'21: fair shares, power mean, restart factor by age; real nodes only.
  kOsdi = 0,
  // The master branch of AdaptDL: sum of speed-ups; as many nodes again that could be requested.
  kMaster = 1,
};

// How an allocation that breaks rules is mended.
struct RepairRules {
  // As published, with what is wrong there: a job that a node has no room for is charged for all the same;
  // jobs that can't be moved lose nodes to the rule of one distributed job per node.
  bool as_published = false;
  // Most nodes of one job.
  int most_nodes = INT32_MAX;
};

struct Problem {
  int jobs = 0;
  int nodes = 0;
  int resources = 0;
  std::vector<int64_t> request;   // jobs x resources, of one replica; none all 0
  std::vector<int64_t> capacity;  // nodes x resources
  std::vector<char> closed;       // by node: takes no new replicas (the pinned ones stay)
  std::vector<char> pinned;       // by job: keeps what it has in any case
  State base;                     // the present allocation
  std::vector<int> min_replicas;  // by job: none or so many
  std::vector<int> max_replicas;  // by job
  std::vector<std::vector<int>>
      allowed;  // by job: the only sizes, ascending; empty: all. Or empty as a whole.

  // Speed-ups by number of replicas, from 0: on one node, on several. At least up to the job's max_replicas.
  std::vector<std::vector<double>> one_node;
  std::vector<std::vector<double>> several_nodes;

  // OSDI: what an allocation that differs from the present one is worth, relative to the same unchanged.
  std::vector<double> restart_factor;

  // By Finish():
  std::vector<double> dominant_share;  // by job: part of the cluster that one replica takes; largest resource
  State most;                          // replicas of the job that the node could hold beside the pinned ones
  State least;  // minReplicas spread from the first node on, as master's mutation wants

  size_t at(int job, int node) const { return static_cast<size_t>(job) * nodes + node; }
  size_t cells() const { return static_cast<size_t>(jobs) * nodes; }
  ConstRow row(const State& state, int job) const { return {state.data() + at(job, 0), size_t(nodes)}; }
  Row row(State& state, int job) const { return {state.data() + at(job, 0), size_t(nodes)}; }
  double Speedup(int job, int node_count, int replicas) const {
    const std::vector<double>& by_replicas = node_count > 1 ? several_nodes[job] : one_node[job];
    return by_replicas[replicas];
  }
};

// Fills in what follows from the rest.
void Finish(Problem& problem);

// A job's size: replicas in all, and nodes with any.
struct Size {
  int replicas = 0;
  int nodes = 0;
};
Size SizeOf(ConstRow row);

// Largest size that the job may have and that is at most `replicas`; 0 if there is none.
int LargestAllowed(const Problem& problem, int job, int replicas);

}  // namespace adaptdl::simulator::pollux

#endif  // ADAPTDL_SIMULATOR_POLICIES_POLLUX_PROBLEM_H_
