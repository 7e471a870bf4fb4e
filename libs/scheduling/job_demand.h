// What each job could make of nodes of given kinds, be there any of them or not: from that follows what any composition
// of nodes is worth (libs/nodepools).
//
// Of a job's sizes on a kind, those on the upper hull of its speed-ups are told, the smallest one in any case: whoever
// weighs speed against a price for each node never chooses another. A namespace's quota bounds each of its jobs by what
// the smallest sizes of all of them leave; those that it has no room for at all can run on no kind.
//
// Pure; thread-safe.

#ifndef ADAPTDL_LIBS_SCHEDULING_JOB_DEMAND_H_
#define ADAPTDL_LIBS_SCHEDULING_JOB_DEMAND_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "libs/scheduling/policy.h"
#include "libs/scheduling/resources.h"

namespace adaptdl::scheduling {

// What nodes of a kind are like.
struct NodeKind {
  Resources capacity;
  // Empty: no GPUs.
  std::string gpu_type;
};

struct DemandSize {
  int replicas = 0;
  // In the unit of the job's remaining work; the same unit on all kinds.
  double speedup = 0;
};

// How fast a job is on nodes of one kind.
struct KindDemand {
  // Index of the kind.
  int kind = 0;
  // Replicas that an empty node holds. At least 1.
  int per_node = 1;
  // Ascending; the speed-ups are greater than 0, rise, and are concave from the first size on. Never empty.
  std::vector<DemandSize> sizes;
};

// With so many replicas; between the sizes that are told, on the line between them.
double SpeedupAt(const KindDemand& demand, int replicas);

struct JobDemand {
  // As JobInfo's of the same names. The weight is that of the job's namespace, too.
  std::string key;
  double weight = 1;
  int priority = 0;
  std::optional<double> remaining_seconds;
  std::optional<absl::Time> deadline;
  // Whether it keeps the nodes that it has in any case.
  bool pinned = false;
  // Node of each replica as decided. Empty: it has none.
  std::vector<std::string> nodes;
  // In order of kind; those that it can run on.
  std::vector<KindDemand> kinds;
};

struct DemandOptions {
  // Nodes of one kind that a job is ever taken to use.
  int most_nodes = 1024;
  // Whether a job of the view (its index) may be placed on a kind (its index) at all. Null: resources alone decide.
  // Resources that stand for places (resources.h) are for this to judge.
  std::function<bool(int job, int kind)> admits = nullptr;
};

// One for each job of the view, in the same order. `decision`: of the same view.
std::vector<JobDemand> MakeJobDemands(const ClusterView& view, const Decision& decision,
                                      const std::vector<NodeKind>& kinds, const DemandOptions& options);

}  // namespace adaptdl::scheduling

#endif  // ADAPTDL_LIBS_SCHEDULING_JOB_DEMAND_H_
