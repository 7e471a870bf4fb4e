// One round: a snapshot in, what to apply and how many nodes to wish for out. No I/O.
//
// Not thread-safe.

#ifndef ADAPTDL_SERVICES_ALLOCATOR_ALLOCATION_ROUND_H_
#define ADAPTDL_SERVICES_ALLOCATOR_ALLOCATION_ROUND_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "adaptdl/v1/capacity_service.pb.h"
#include "adaptdl/v1/scheduling_service.pb.h"
#include "libs/scheduling/policy.h"
#include "services/allocator/demand_board.h"
#include "services/allocator/snapshot_converter.h"

namespace adaptdl::allocator {

// A job whose replicas change.
struct Move {
  std::string job;
  int replicas_before = 0;
  int replicas_after = 0;
  std::string reason;
};

struct RoundResult {
  // Without request_id. Holds the jobs whose allocation or explanation changes.
  v1::ApplyAllocationsRequest request;
  scheduling::CapacityDecision capacity;
  std::vector<Move> moves;
  std::vector<Refusal> refusals;
  // See GetDesiredCapacityResponse.
  std::vector<v1::UnplacedReplica> unplaced;
  // What jobs could make of other nodes follows from this.
  DemandBasis basis;
  // Number of jobs by outcome: "running", "waiting", "unschedulable", "refused".
  std::map<std::string, int> jobs;
};

class AllocationRound {
 public:
  // `policy` is not owned and outlives the round.
  explicit AllocationRound(const scheduling::AllocationPolicy* policy, uint64_t seed = 1)
      : policy_(*policy), seed_(seed) {}

  RoundResult Decide(const v1::ClusterSnapshot& snapshot, absl::Time now);
  // See SnapshotConverter.
  void Expect(std::vector<scheduling::NodeKind> kinds) { converter_.Expect(std::move(kinds)); }

 private:
  scheduling::Decision DecideOnce(const scheduling::ClusterView& view) const;
  // Two decisions, which differ while nodes are likely to be taken away: what is wanted is as if they were gone, and more
  // nodes are wished for by it; what is applied leaves jobs alone that would only lose something.
  struct Decided {
    scheduling::Decision wanted;
    scheduling::Decision applied;
  };
  Decided DecideKeeping(const ConvertedCluster& cluster) const;

  const scheduling::AllocationPolicy& policy_;
  const uint64_t seed_;
  SnapshotConverter converter_;
};

}  // namespace adaptdl::allocator

#endif  // ADAPTDL_SERVICES_ALLOCATOR_ALLOCATION_ROUND_H_
