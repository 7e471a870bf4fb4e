// The cluster as the supervisor's messages tell it: first a snapshot, then another one or what differs.
//
// Not thread-safe.

#ifndef ADAPTDL_SERVICES_ALLOCATOR_CLUSTER_MIRROR_H_
#define ADAPTDL_SERVICES_ALLOCATOR_CLUSTER_MIRROR_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "adaptdl/v1/scheduling_service.pb.h"

namespace adaptdl::allocator {

class ClusterMirror {
 public:
  // A new stream begins: what has come of an unfinished message of the one before is void. What is known
  // stays.
  void BeginStream();

  // `now`: time of the message. A page counts when the last one of its message has come. Whether something
  // changed that calls for a decision at once: jobs, nodes, quotas, allocations, or hints that
  // HintSignature() tells apart. A change before any snapshot is passed over.
  bool Take(v1::WatchClusterResponse message, absl::Time now);

  // Whether, since this was asked last, a change said of a node when it goes away: then no further changes are to be
  // waited for.
  bool TakeNodeLeaves() { return std::exchange(node_leaves_, false); }

  // Whether there was a snapshot.
  bool known() const { return known_; }
  int64_t version() const { return version_; }
  // Copies all. Jobs that run have run on until `now`.
  v1::ClusterSnapshot Snapshot(absl::Time now) const;

 private:
  struct Entry {
    v1::Job job;
    absl::Time told;
    std::string hints;  // their signature
  };

  bool TakeSnapshot(v1::ClusterSnapshot snapshot, absl::Time now);
  bool TakeChange(v1::ClusterChange change, absl::Time now);
  // Whether its hints are others than before.
  bool Put(v1::Job job, absl::Time now);

  // Pages of a message that is not complete yet.
  std::optional<v1::WatchClusterResponse> begun_;
  bool known_ = false;
  bool node_leaves_ = false;
  int64_t version_ = 0;
  int64_t last_place_ = 0;
  std::map<int64_t, Entry> jobs_;                     // in order of submission
  absl::flat_hash_map<std::string, int64_t> places_;  // by uid
  std::map<std::string, v1::Node> nodes_;             // by id
  v1::NamespaceQuotas quotas_;
};

}  // namespace adaptdl::allocator

#endif  // ADAPTDL_SERVICES_ALLOCATOR_CLUSTER_MIRROR_H_
