// Who leads, by a Lease of the cluster.
//
// The election is somebody else's, with a session of its own, so that no backlog of other calls delays its renewal; it
// outlives this. Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_STORE_KUBE_LEASE_H_
#define ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_STORE_KUBE_LEASE_H_

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <utility>

#include "libs/kube/control/leader_election.h"
#include "services/supervisor/lease/leader_lease.h"

namespace adaptdl::supervisor {

class KubeLease final : public LeaderLease {
 public:
  // `give_up` ends the process, except in tests.
  KubeLease(kube::LeaderElection* election, std::function<void(const std::string& why)> give_up)
      : election_(*election), give_up_(std::move(give_up)) {}

  // The term is larger than `term` afterwards, which is the largest that stands in an object (KubeJobStore::LargestTerm()).
  // After Load(), before anything is written. FAILED_PRECONDITION: the lease is lost.
  absl::Status RaiseAbove(int64_t term, const std::stop_token& stop = {});

  int64_t term() const override { return election_.term(); }
  bool Valid() const override { return election_.Valid(); }
  absl::Status AwaitValid(absl::Duration timeout) override { return election_.AwaitValid(timeout); }
  void GiveUp(const std::string& why) override { give_up_(why); }

 private:
  kube::LeaderElection& election_;
  const std::function<void(const std::string& why)> give_up_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_STORE_KUBE_LEASE_H_
