// Replicas that may be on a node. Pure functions; thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_NODES_LIVE_REPLICAS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_NODES_LIVE_REPLICAS_H_

#include <map>
#include <string>
#include <vector>

#include "services/supervisor/state/transaction.h"

namespace adaptdl::supervisor {

// Jobs (uids) with a replica that may be on the node, and the indices of these in JobEntry::replicas.
std::map<std::string, std::vector<int>> LiveOn(const Transaction& transaction, const std::string& node_id);

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_NODES_LIVE_REPLICAS_H_
