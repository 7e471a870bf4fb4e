// The greedy steps: give a job its minimum, and give replicas one by one to whoever gains most from the next.
//
// Works on a ClusterState (not owned, outlives the grower). Not thread-safe.

#ifndef ADAPTDL_LIBS_SCHEDULING_GROWTH_H_
#define ADAPTDL_LIBS_SCHEDULING_GROWTH_H_

#include <optional>
#include <vector>

#include "libs/scheduling/cluster_state.h"

namespace adaptdl::scheduling {

struct GrowthOptions {
  // A change of a job that holds replicas must make it faster by this part of its speed-up.
  double hysteresis = 0.1;
  // Least speed-up that another replica must add.
  double least_gain = 0.02;
};

// Replicas that the job starts with: the fewest from min_replicas on that can be fed.
int StartSize(const JobInfo& job);

class Grower {
 public:
  Grower(const GrowthOptions& options, ClusterState* state);

  // Gives the job all of StartSize() replicas, or none and returns false. Nodes that it holds at present come
  // first, then room that nobody claims, then room that others can spare.
  bool Admit(int job);

  // Gives replicas to the jobs, each time one to the job with the largest gain for its part of the cluster,
  // until none gains or fits. Jobs without replicas get none.
  void Grow(const std::vector<int>& jobs);

  // What a job won by a step.
  struct Gain {
    int job = 0;
    double speedup = 0;
  };

  // The same on one node alone. Returns what was won.
  std::vector<Gain> GrowOnto(int node, const std::vector<int>& jobs);

 private:
  // Replicas to add to a job, all on one node or (node -1) spread; or the whole job moves to that node.
  struct Step {
    int job = 0;
    int replicas = 1;
    int node = -1;
    bool relocate = false;
    Room room = Room::kAny;  // that the step was chosen for
    double gain = 0;         // of speed-up
    double rank = 0;         // the larger, the earlier
  };

  std::optional<Step> NextStep(int job) const;
  std::optional<Step> NextStepOn(int job, int node) const;
  std::optional<Step> Relocation(int job) const;
  std::optional<Step> Leap(int job) const;
  Step MakeStep(int job, int node, int replicas, double gain, Room room) const;
  // Whether the room that the step was chosen for is still there.
  bool IsStillPossible(const Step& step) const;
  bool Apply(const Step& step);
  std::vector<Gain> Run(const std::vector<int>& jobs, int only_node);

  // The node with room for `replicas` that has least to spare; -1 if there is none.
  int TightestNode(int job, int replicas, Room room) const;
  bool PlaceRest(int job, int replicas, Room room);
  // How much speed-up those lose whose claims on the node are not placed. 0: nobody claims anything there.
  double DisplacementCost(int node) const;
  double GainOn(int job, int node, int replicas) const;

  const GrowthOptions options_;
  ClusterState* const state_;
  std::vector<std::vector<int>> holders_;  // jobs by the node that they hold at present
  std::vector<double> last_gain_;          // by job: what its last replica brought, as it is at present
};

}  // namespace adaptdl::scheduling

#endif  // ADAPTDL_LIBS_SCHEDULING_GROWTH_H_
