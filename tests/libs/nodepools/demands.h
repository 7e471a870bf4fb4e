// Jobs and pools for tests.

#ifndef ADAPTDL_TESTS_LIBS_NODEPOOLS_DEMANDS_H_
#define ADAPTDL_TESTS_LIBS_NODEPOOLS_DEMANDS_H_

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/nodepools/composition.h"
#include "libs/nodepools/pool.h"

namespace adaptdl::nodepools {

// Sizes 1 to `most` with the speed-ups factor x k^exponent: 1 scales perfectly. A node holds `per_node` replicas.
inline scheduling::KindDemand On(int kind, int most, double exponent = 1, double factor = 1,
                                 int per_node = 1) {
  scheduling::KindDemand demand;
  demand.kind = kind;
  demand.per_node = per_node;
  for (int k = 1; k <= most; ++k) demand.sizes.push_back({k, factor * std::pow(k, exponent)});
  return demand;
}

inline scheduling::JobDemand Demand(const std::string& key, std::vector<scheduling::KindDemand> kinds) {
  scheduling::JobDemand demand;
  demand.key = key;
  demand.kinds = std::move(kinds);
  return demand;
}

// A job that waits.
inline JobView Waiting(const std::string& key, std::vector<scheduling::KindDemand> kinds) {
  return {Demand(key, std::move(kinds))};
}

// One that runs on a kind.
inline JobView Running(const std::string& key, std::vector<scheduling::KindDemand> kinds, int kind = 0,
                       double speedup = 1) {
  return {Demand(key, std::move(kinds)), kind, speedup};
}

// `running` nodes that are in the cluster, and `starting` ones.
inline Pool MakePool(const std::string& name, int most, int running = 0, double price = -1, bool spot = false,
                     int starting = 0) {
  Pool pool;
  pool.name = name;
  pool.price_per_hour = price;
  pool.preemptible = spot;
  pool.max_nodes = most;
  for (int i = 0; i < running + starting; ++i) {
    PoolNode node;
    node.id = absl::StrCat(name, "-", i);
    node.phase = i < running ? NodePhase::kRunning : NodePhase::kStarting;
    node.empty = i >= running;
    node.use = i < running ? 1 : 0;
    pool.nodes.push_back(std::move(node));
  }
  return pool;
}

}  // namespace adaptdl::nodepools

#endif  // ADAPTDL_TESTS_LIBS_NODEPOOLS_DEMANDS_H_
