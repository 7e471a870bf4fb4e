// Joins what the providers, the supervisor and the allocator say into one view of all pools.
//
// Pure; thread-safe.

#ifndef ADAPTDL_SERVICES_AUTOSCALER_OBSERVATION_H_
#define ADAPTDL_SERVICES_AUTOSCALER_OBSERVATION_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "adaptdl/v1/capacity_service.pb.h"
#include "adaptdl/v1/node.pb.h"
#include "libs/nodepools/pool.h"
#include "services/autoscaler/kinds.h"
#include "services/autoscaler/providers/node_pool_provider.h"

namespace adaptdl::autoscaler {

// A pool, as it was seen in one round.
struct ObservedPool {
  std::string name;
  PoolKind kind;
  std::vector<ProvidedNode> provided;
  // Whether its provider has an answer. Without one nothing is done with the pool, and its nodes are as they were.
  bool answered = true;
};

// Of all pools.
struct Observation {
  std::vector<ObservedPool> pools;
  // From the supervisor: all nodes of the cluster.
  std::vector<v1::Node> registered;
};

// The pool's nodes, of which the allocator calls some idle.
std::vector<nodepools::PoolNode> NodesOf(const ObservedPool& pool, const std::vector<v1::Node>& registered,
                                         const std::set<std::string>& idle);

// Ids that new nodes of the pool must not have.
std::set<std::string> TakenIds(const ObservedPool& pool, const std::vector<v1::Node>& registered);

// Nodes of the pool that the supervisor still knows though they are gone, and that it may forget.
std::vector<std::string> NodesToForget(const ObservedPool& pool, const std::vector<v1::Node>& registered);

// What a node of the pool is like: one that is registered, else what `like` and the provider say. Absent: nobody knows.
std::optional<v1::Node> LikeOf(const ObservedPool& pool, const std::optional<v1::Node>& like,
                               const std::vector<v1::Node>& registered);

// Registered nodes that are in none of the pools, and take replicas.
std::vector<v1::Node> OtherNodes(const Observation& observation);

}  // namespace adaptdl::autoscaler

#endif  // ADAPTDL_SERVICES_AUTOSCALER_OBSERVATION_H_
