// Which virtual environments replicas use.

#include <set>
#include <string>

#include "services/worker/replica_end.h"
#include "services/worker/replica_manager.h"

namespace adaptdl::worker {

void ReplicaManager::TrimPython() {
  python_.Trim([this] {
    std::set<std::string> used;
    MutexLock lock(&mutex_);
    for (const auto& [replica_id, entry] : replicas_) {
      // One that was called off may still be on its way to its folder.
      const bool ended = HasEnded(entry.report.replica()) && entry.start == Start::kDone;
      if (ended || !entry.replica_template.has_python()) continue;
      used.insert(python_.NameOf(entry.report.namespace_(), entry.replica_template));
    }
    return used;
  });
}

}  // namespace adaptdl::worker
