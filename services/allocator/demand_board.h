// Answers what each job could make of nodes of kinds that the caller names, from what the last round saw and decided.
//
// Thread-safe.

#ifndef ADAPTDL_SERVICES_ALLOCATOR_DEMAND_BOARD_H_
#define ADAPTDL_SERVICES_ALLOCATOR_DEMAND_BOARD_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "adaptdl/v1/capacity_service.pb.h"
#include "adaptdl/v1/node.pb.h"
#include "adaptdl/v1/placement.pb.h"
#include "libs/base/mutex.h"
#include "libs/scheduling/job_demand.h"
#include "libs/scheduling/policy.h"

namespace adaptdl::allocator {

// What a round saw and decided.
struct DemandBasis {
  scheduling::ClusterView view;
  scheduling::Decision decision;
  // By job of the view: which nodes take it.
  std::vector<v1::Placement> placements;
  int64_t snapshot_version = 0;
  absl::Time decision_time;
};

// Nodes that there may be some day, as the policy sees them. INVALID_ARGUMENT names the kind and the field.
absl::StatusOr<std::vector<scheduling::NodeKind>> ToKinds(
    const google::protobuf::RepeatedPtrField<v1::Node>& nodes);

class DemandBoard {
 public:
  DemandBoard();

  void Set(DemandBasis basis);
  // Until the next Set().
  void Refuse(const absl::Status& why);

  // A page that ends with the job that goes beyond `bytes`. UNAVAILABLE before the first Set(). INVALID_ARGUMENT: a kind
  // is none. ABORTED: the page token belongs to an older decision, or to other kinds.
  absl::StatusOr<v1::ListJobDemandsResponse> List(const v1::ListJobDemandsRequest& request, size_t bytes);

  // The kinds that were asked about last: jobs' speeds are worked out for these, too.
  std::vector<scheduling::NodeKind> Kinds() const;

 private:
  // All that was asked about one decision and its kinds, of which pages are parts.
  struct Answer {
    std::string kinds;  // as they were sent
    std::string id;     // in page tokens
    v1::ListJobDemandsResponse whole;
  };

  mutable Mutex mutex_;
  absl::StatusOr<std::shared_ptr<const DemandBasis>> basis_ ABSL_GUARDED_BY(mutex_);
  std::vector<scheduling::NodeKind> kinds_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const Answer> answer_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::allocator

#endif  // ADAPTDL_SERVICES_ALLOCATOR_DEMAND_BOARD_H_
