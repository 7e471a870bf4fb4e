// What more or fewer nodes would bring: for each number of nodes of one kind, the best that jobs could make
// of them.
//
//   utility       sum over jobs of (speed-up / replicas) x (part of the nodes that its replicas take): 1 if
//   all
//                 nodes are in use and every replica is worth as much as a single one
//   marginal use  the same, of the best use that a part of the last node could be put to
//   makespan      time until the last job ends whose remaining work is known
//
// Sizes count as parts of nodes; gaps between them on nodes are left out.
//
// Utility: steps of the jobs' concave speed-ups are taken in falling order of use, whole ones as far as they
// fit. What the best choice of sizes could add is less than the gain of one step of one job (the bound of
// the linear relaxation; Sinha and Zoltners, "The multiple-choice knapsack problem", 1979). Utility times
// nodes never falls with more nodes, and marginal use never rises.
//
// Makespan: the smallest for jobs that all run at once, each at a fixed size, others than those with known
// work at their smallest; with too few nodes for that, as if they took turns without gaps. It never rises
// with more nodes. The allocator does not aim at it, so it is an estimate of what could be kept, not a
// forecast.
//
// O(steps log steps + nodes x log steps), and more only where large steps leave gaps. Pure; thread-safe.

#ifndef ADAPTDL_LIBS_SCHEDULING_CAPACITY_CURVE_H_
#define ADAPTDL_LIBS_SCHEDULING_CAPACITY_CURVE_H_

#include <optional>
#include <vector>

#include "libs/scheduling/policy.h"

namespace adaptdl::scheduling {

// One size that a job may have.
struct CurveSize {
  int replicas = 0;
  // Nodes that they take: a node that holds four has a quarter taken by each.
  double nodes = 0;
  // Speed-up in the unit of the job's remaining work.
  double speedup = 0;
};

struct CurveJob {
  // In ascending order; only those with a speed-up. A pinned job has one. Empty: it can't run on such nodes.
  std::vector<CurveSize> sizes;
  // Whether it has the nodes in any case.
  bool pinned = false;
  // What counts as full use of a replica: the speed-up of a single one. Greater than 0.
  double full_use = 1;
  // At speed-up 1. Absent: unknown.
  std::optional<double> remaining_seconds;
};

struct CurveOptions {
  // The curve has points for 1 to this many nodes.
  int most_nodes = 0;
  // Further nodes that jobs use and keep, added to the number of each point; no part of its utility.
  int other_nodes = 0;
  // Time until the last job there ends, in seconds. Absent: unknown, or there is none.
  std::optional<double> other_makespan_seconds;
};

// Nodes that all jobs take at their smallest sizes.
int StartNodes(const std::vector<CurveJob>& jobs);

// One point for each number of nodes, ascending.
std::vector<CapacityPoint> MakeCapacityCurve(const std::vector<CurveJob>& jobs, const CurveOptions& options);

}  // namespace adaptdl::scheduling

#endif  // ADAPTDL_LIBS_SCHEDULING_CAPACITY_CURVE_H_
