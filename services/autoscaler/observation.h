// Joins what the provider, the supervisor and the allocator say into one view of the pool.
//
// Pure.

#ifndef ADAPTDL_SERVICES_AUTOSCALER_OBSERVATION_H_
#define ADAPTDL_SERVICES_AUTOSCALER_OBSERVATION_H_

#include <optional>
#include <string>
#include <vector>

#include "adaptdl/v1/capacity_service.pb.h"
#include "adaptdl/v1/node.pb.h"
#include "services/autoscaler/pool_controller.h"
#include "services/autoscaler/providers/node_pool_provider.h"

namespace adaptdl::autoscaler {

struct Observation {
  // From the provider.
  PoolKind kind;
  std::vector<ProvidedNode> provided;
  // From the supervisor: all nodes of the cluster.
  std::vector<v1::Node> registered;
  // From the allocator. Absent: it has nothing to say, or what the supervisor said is out of date.
  std::optional<v1::GetDesiredCapacityResponse> capacity;
  absl::Time last_change;
};

PoolView MakePoolView(const Observation& observation);

// Nodes of the pool that the supervisor still knows though they are gone, and that it may forget.
std::vector<std::string> NodesToForget(const Observation& observation);

}  // namespace adaptdl::autoscaler

#endif  // ADAPTDL_SERVICES_AUTOSCALER_OBSERVATION_H_
