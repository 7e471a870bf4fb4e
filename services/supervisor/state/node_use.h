// What is held and wanted of each node, kept up to date job by job, so that nobody has to count all replicas
// of the cluster to know about one node. A plain value; thread-safe as such.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_STATE_NODE_USE_H_
#define ADAPTDL_SERVICES_SUPERVISOR_STATE_NODE_USE_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "services/supervisor/state/amounts.h"
#include "services/supervisor/state/job_entry.h"

namespace adaptdl::supervisor {

// The part that one job has in it.
struct JobShare {
  // What one replica takes.
  Amounts need;
  // Replicas that may be there, and replicas that the allocator has decided on, by node.
  std::map<std::string, int> live;
  std::map<std::string, int> wanted;
  // Of the live ones those that stay: as many as are wanted there, and nobody who was told to stop.
  std::map<std::string, int> kept;
};

// Finished jobs have none.
JobShare ShareOf(const JobEntry& job);

class NodeUse {
 public:
  struct Use {
    int64_t replicas = 0;
    Amounts held;
    Amounts wanted;
    Amounts kept;
  };

  // Adds the share so many times: 1 for a job that comes, -1 for one that goes.
  void Add(const JobShare& share, int64_t times);

  // Null: nothing of the node is.
  const Use* Find(const std::string& node_id) const;

  // Nodes whose use has changed since the last call.
  std::set<std::string> TakeChanged() { return std::exchange(changed_, {}); }

  // Nodes of which something was added or taken away.
  const std::map<std::string, Use>& nodes() const { return nodes_; }

 private:
  std::map<std::string, Use> nodes_;
  std::set<std::string> changed_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_STATE_NODE_USE_H_
