// What the allocator is told of the cluster: all of it at one moment, or what differs from an earlier one, in
// messages of a bounded size, made of entries that never change, and so without the state's lock.
//
// Not thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_STATE_CLUSTER_UPDATE_H_
#define ADAPTDL_SERVICES_SUPERVISOR_STATE_CLUSTER_UPDATE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "adaptdl/v1/scheduling_service.pb.h"
#include "libs/pastwork/past_work.h"
#include "services/supervisor/state/job_entry.h"
#include "services/supervisor/state/tables.h"

namespace adaptdl::supervisor {

struct ClusterUpdate {
  // Whether it is all of the cluster; else what differs.
  bool whole = true;
  int64_t version = 0;
  absl::Time now;
  // In order of submission.
  std::vector<std::shared_ptr<const JobEntry>> jobs;
  // What is known of each one's kind, in samples (finished_work.h).
  std::vector<std::optional<pastwork::PastWork>> past_work;
  std::vector<std::string> gone_jobs;  // uids
  std::vector<std::shared_ptr<const NodeEntry>> nodes;
  std::vector<std::string> gone_nodes;  // ids
  // All of them. Absent: they do not differ.
  std::optional<std::vector<v1::NamespaceQuota>> quotas;
};

// Tells a view message by message.
class ClusterPages {
 public:
  // Messages hold about `bytes`: they end with the entry that goes beyond. The largest number: all in one, for callers of
  // older versions, which know nothing of the labels of nodes, and get none.
  ClusterPages(ClusterUpdate view, size_t bytes);

  // Fills the next message, which is empty. There is at least one.
  void Next(v1::WatchClusterResponse* message);
  // Whether all was told.
  bool done() const { return done_; }

 private:
  // Adds entries of one list from `*place` on while there is room. `add` returns the entry's size. Whether
  // all are there.
  template <typename Entries, typename Add>
  bool Fill(const Entries& entries, size_t* place, const Add& add);
  // `message`: a snapshot or a change. Whether all is there.
  template <typename Message, typename Quotas>
  bool FillCommon(Message* message, const Quotas& quotas);

  const ClusterUpdate view_;
  const size_t bytes_;
  const bool has_pages_;
  bool done_ = false;
  // Of the message that is being filled.
  size_t size_ = 0;
  size_t next_job_ = 0;
  size_t next_gone_job_ = 0;
  size_t next_node_ = 0;
  size_t next_gone_node_ = 0;
  size_t next_quota_ = 0;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_STATE_CLUSTER_UPDATE_H_
