// Which part of a node each job holds. Pure; thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_COSTS_HOLDERS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_COSTS_HOLDERS_H_

#include <vector>

#include "adaptdl/v1/resources.pb.h"
#include "services/supervisor/costs/cost_accountant.h"

namespace adaptdl::supervisor {

// Replicas of one job on a node.
struct Residents {
  Holder job;
  // What one replica asks for.
  v1::Resources need;
  int replicas = 0;
};

// A job's part is the largest that its replicas take of any kind of resource of the node: who takes its only GPU leaves
// nothing that others would pay for. Replicas that ask for nothing share what is left. Parts that would be more than
// the node are made smaller alike.
std::vector<Holder> PartsOf(const v1::Resources& capacity, const std::vector<Residents>& residents);

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_COSTS_HOLDERS_H_
