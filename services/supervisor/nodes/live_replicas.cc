#include "services/supervisor/nodes/live_replicas.h"

#include <map>
#include <string>
#include <vector>

#include "services/supervisor/store/convert.h"

namespace adaptdl::supervisor {

std::map<std::string, std::vector<int>> LiveOn(const Transaction& transaction, const std::string& node_id) {
  std::map<std::string, std::vector<int>> jobs;
  for (const JobEntry* job : transaction.ActiveJobs()) {
    for (size_t rank = 0; rank < job->replicas.size(); ++rank) {
      const v1::Replica& replica = job->replicas[rank]->replica;
      if (replica.node_id() == node_id && IsLive(replica))
        jobs[job->record.uid()].push_back(static_cast<int>(rank));
    }
  }
  return jobs;
}

}  // namespace adaptdl::supervisor
