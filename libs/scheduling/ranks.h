// From replicas by node to the node of each rank. Pure; thread-safe.

#ifndef ADAPTDL_LIBS_SCHEDULING_RANKS_H_
#define ADAPTDL_LIBS_SCHEDULING_RANKS_H_

#include <map>
#include <string>
#include <vector>

namespace adaptdl::scheduling {

// The node of each rank: replicas that stay where they are in `present` keep their order, new ones follow in
// order of node. `replicas`: how many, by node.
std::vector<std::string> OrderRanks(const std::vector<std::string>& present,
                                    std::map<std::string, int> replicas);

}  // namespace adaptdl::scheduling

#endif  // ADAPTDL_LIBS_SCHEDULING_RANKS_H_
