// The kinds of nodes that an autoscaler asks the allocator about: one for each pool, and one for each sort of node that is in
// no pool. Pools whose nodes are about equal, and take the same jobs, are then one kind: they stand in for one another. Nodes
// in no pool that are at least as good as a pool's, and take the same jobs, are of its kind, too.
//
// Pure; thread-safe.

#ifndef ADAPTDL_SERVICES_AUTOSCALER_KINDS_H_
#define ADAPTDL_SERVICES_AUTOSCALER_KINDS_H_

#include <map>
#include <string>
#include <vector>

#include "adaptdl/v1/capacity_service.pb.h"
#include "adaptdl/v1/node.pb.h"
#include "libs/nodepools/composition.h"

namespace adaptdl::autoscaler {

// What is asked about.
struct KindQuestion {
  // The pools' first, in their order.
  std::vector<v1::Node> kinds;
  int pools = 0;
  // Nodes that are in no pool and take replicas, and their kinds (indices).
  std::map<std::string, int> fixed_nodes;
};

// `pools`: what nodes of each pool are like. `others`: registered nodes that are in none.
KindQuestion AskAbout(const std::vector<v1::Node>& pools, const std::vector<v1::Node>& others);

// What is known with the answer.
struct KindAnswer {
  // By kind of the question: the kind that it is now. They are fewer.
  std::vector<int> merged;
  int kinds = 0;
  std::vector<nodepools::JobView> jobs;
};

// `node_pools`: pool (index) of each node that is in one. What is no answer to the question is passed over: numbers out of
// range, sizes that do not rise.
KindAnswer Interpret(const KindQuestion& question, const std::map<std::string, int>& node_pools,
                     const std::vector<v1::JobDemand>& demands);

}  // namespace adaptdl::autoscaler

#endif  // ADAPTDL_SERVICES_AUTOSCALER_KINDS_H_
