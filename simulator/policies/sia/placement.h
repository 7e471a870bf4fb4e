// Puts chosen sizes onto the nodes of one pool, so that as many jobs as can be stay where they are.
//
// Sizes that are powers of two within nodes that are powers of two always fit if their sum does. Pure;
// thread-safe.

#ifndef ADAPTDL_SIMULATOR_POLICIES_SIA_PLACEMENT_H_
#define ADAPTDL_SIMULATOR_POLICIES_SIA_PLACEMENT_H_

#include <vector>

#include "simulator/policies/sia/configurations.h"

namespace adaptdl::simulator::sia {

struct Seat {
  int nodes = 0;
  int gpus = 0;  // in all; the same on each node
  // Where it is at present, by node of the pool, if it has this size there. Empty: anywhere.
  std::vector<int> present;
};

// Node (index within the pool) of each node of each seat; empty: there was no room. `free`: GPUs by node.
// Nobody moves if all fit beside those that stay; else those that span nodes are put first, then the larger.
std::vector<std::vector<int>> PlaceSeats(const std::vector<Seat>& seats, const std::vector<int>& free);

}  // namespace adaptdl::simulator::sia

#endif  // ADAPTDL_SIMULATOR_POLICIES_SIA_PLACEMENT_H_
