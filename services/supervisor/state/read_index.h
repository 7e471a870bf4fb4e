// Jobs, nodes and quotas as they were committed last, for those who only read. Entries never change: a reader
// takes pointers, and compares, describes and sends without any lock. So readers do not wait for the state's
// lock, which is held while the store is written to, and do not hold it; the index's own lock is held for one
// look-up, or for one batch of a list.
//
// Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_STATE_READ_INDEX_H_
#define ADAPTDL_SERVICES_SUPERVISOR_STATE_READ_INDEX_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "libs/base/mutex.h"
#include "services/supervisor/state/change_hub.h"
#include "services/supervisor/state/cluster_update.h"
#include "services/supervisor/state/finished_work.h"
#include "services/supervisor/state/node_use.h"
#include "services/supervisor/state/tables.h"

namespace adaptdl::supervisor {

class ReadIndex {
 public:
  // A node, and what is held of it.
  struct Node {
    std::shared_ptr<const NodeEntry> entry;
    NodeUse::Use use;
  };
  // What of the tables is to be published.
  struct Update {
    int64_t version = 0;
    std::vector<std::shared_ptr<const JobEntry>> jobs;
    std::vector<std::string> gone_jobs;  // uids
    std::vector<Node> nodes;
    std::vector<std::string> gone_nodes;  // ids
    // Whether `quotas` holds all of them.
    bool has_quotas = false;
    std::map<std::string, v1::NamespaceQuota> quotas;
  };

  // What is seen of it is seen together.
  void Publish(Update update);

  // Null: there is none.
  std::shared_ptr<const JobEntry> FindJob(const std::string& uid) const;
  std::shared_ptr<const JobEntry> FindJob(const std::string& name_space, const std::string& name) const;
  // At most so many jobs of the namespace ("*": of all) from behind `sequence` on, in order of submission.
  std::vector<std::shared_ptr<const JobEntry>> JobsAfter(const std::string& name_space, int64_t sequence,
                                                         size_t most) const;

  std::shared_ptr<const NodeEntry> FindNode(const std::string& id) const;
  // At most so many nodes from behind `id` on, in order of id.
  std::vector<Node> NodesAfter(const std::string& id, size_t most) const;

  // At most so many quotas from behind that of the namespace on, in order of namespace.
  std::vector<v1::NamespaceQuota> QuotasAfter(const std::string& name_space, size_t most) const;

  // For the allocator: the cluster, and what of it the news are about, as it is now.
  ClusterUpdate View() const;
  ClusterUpdate ViewOfChange(const ClusterNews& news) const;

 private:
  using Jobs = std::map<int64_t, std::shared_ptr<const JobEntry>>;  // in order of submission

  void AddTo(ClusterUpdate* view, const std::shared_ptr<const JobEntry>& job) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PutJob(std::shared_ptr<const JobEntry> entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EraseJob(const std::string& uid) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  int64_t version_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unordered_map<std::string, std::shared_ptr<const JobEntry>> by_uid_ ABSL_GUARDED_BY(mutex_);
  std::map<std::pair<std::string, std::string>, std::shared_ptr<const JobEntry>> by_name_
      ABSL_GUARDED_BY(mutex_);
  Jobs all_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Jobs> by_namespace_ ABSL_GUARDED_BY(mutex_);
  // Those that have not finished.
  Jobs active_ ABSL_GUARDED_BY(mutex_);
  FinishedWork finished_work_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Node> nodes_ ABSL_GUARDED_BY(mutex_);  // by id
  std::map<std::string, v1::NamespaceQuota> quotas_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_STATE_READ_INDEX_H_
