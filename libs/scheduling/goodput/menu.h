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

#include <map>
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

// What the queue (goodput/queue.h) says about a job.
enum class Turn {
  kCompetes,    // gets what is worth most to all
  kKeepsPlace,  // has the place that it has; no part of the problem
  kMayStart,    // has not measured itself, and its turn has come
  kMustWait,    // the same, but others come first
};

// Sizes, and their options in the same order.
struct Choices {
  std::vector<Size> sizes;
  std::vector<Option> options;
};

struct Menu {
  // By job; nothing for jobs that are pinned.
  std::vector<std::vector<Size>> sizes;
  // By job.
  std::vector<int> priority;
  // By job.
  std::vector<Turn> turn;
  // Those that may start or must wait, in the order in which they start.
  std::vector<int> line;
  // Its groups have an option for each size, in the same order; none for jobs that keep their places.
  ChoiceProblem problem;
  // By job that keeps its place: what it may have elsewhere, if a job of a higher priority takes the place
  // after all. No more replicas than it has.
  std::map<int, Choices> displaced;
  // By newcomer, where units of pools are a guess: all that it may have, if there turns out to be room.
  std::map<int, Choices> anywhere;
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
