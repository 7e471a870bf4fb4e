// Every size that each job may have, and what it is worth: the options of the selection problem.
//
// On a pool of nodes that hold S of the job's replicas each, the sizes are 1, 2, 4, ... on one node, a full
// node, and several full nodes: on equal nodes such sizes always find a place if their sum does, while sizes
// in between leave gaps that cost moves (Jayaram Subramanya et al., "Sia", SOSP 2023, section 3.3, uses the
// same form). Sizes that somebody asked for (the bounds, the allowed sizes) are options, too. What the job
// may not have, can't use (speed-up 0) or would hardly use (a replica that adds less than the least gain) is
// left out. The size that a job has stays an option as long as it can stay, whatever its form.
//
// Pure; thread-safe.

#ifndef ADAPTDL_LIBS_SCHEDULING_GOODPUT_MENU_H_
#define ADAPTDL_LIBS_SCHEDULING_GOODPUT_MENU_H_

#include <vector>

#include "libs/scheduling/goodput/cluster_model.h"
#include "libs/scheduling/goodput/multiple_choice.h"
#include "libs/scheduling/goodput/valuation.h"

namespace adaptdl::scheduling {

struct Size {
  int pool = 0;
  int replicas = 0;
  // Whether the job is left where it is.
  bool stays = false;
  double speedup = 0;
};

struct Menu {
  // By job; nothing for jobs that are pinned.
  std::vector<std::vector<Size>> sizes;
  // By job.
  std::vector<int> priority;
  // Its groups have an option for each size, in the same order.
  ChoiceProblem problem;
};

// Sizes of the job on up to `most_nodes` nodes of the pool at which it runs, ascending.
std::vector<int> UsefulSizes(const ClusterModel& model, int job, int pool, int most_nodes);

struct MenuOptions {
  // Least speed-up that each further replica must add.
  double least_gain = 0.02;
};

Menu MakeMenu(const ClusterModel& model, const Valuation& valuation, const MenuOptions& options);

}  // namespace adaptdl::scheduling

#endif  // ADAPTDL_LIBS_SCHEDULING_GOODPUT_MENU_H_
