// A replica proves who it is by the token that its pod was given: one that the cluster has made for us
// (kubejobs::kTokenAudience), for a pod with the replica's name, in the job's namespace.
//
// What the API server says of a token is remembered for a while, so that a job's replicas, which come again and again,
// cost it little. Strangers can make it ask: no more often than `calls_per_second`.
//
// Thread-safe. The client and the clock outlive it.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_IDENTITY_POD_PROOF_H_
#define ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_IDENTITY_POD_PROOF_H_

#include <cstddef>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/base/clock.h"
#include "libs/base/mutex.h"
#include "libs/base/token_buckets.h"
#include "libs/kube/client/client.h"
#include "services/supervisor/replicas/replica_proof.h"

namespace adaptdl::supervisor {

struct PodProofOptions {
  // How long an answer counts. A pod that is gone is no member of anything: this is no matter of safety.
  absl::Duration lifetime = absl::Minutes(2);
  size_t most_remembered = 20'000;
  int calls_per_second = 50;
};

class PodProof final : public ReplicaProof {
 public:
  PodProof(const kube::Client* client, const Clock* clock, PodProofOptions options = {});

  absl::Status Check(const v1::ReplicaIdentity& identity, const std::string& token) override;

 private:
  // Whose a token is. Nobody's: both are empty.
  struct Owner {
    std::string name_space;
    std::string pod;
    absl::Time until;
  };

  absl::StatusOr<Owner> OwnerOf(const std::string& token);
  absl::StatusOr<Owner> Ask(const std::string& token) const;
  void Remember(const std::string& digest, const Owner& owner, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const kube::Client& client_;
  const Clock& clock_;
  const PodProofOptions options_;
  Mutex mutex_;
  TokenBuckets calls_ ABSL_GUARDED_BY(mutex_);
  // By the token's SHA-256.
  std::map<std::string, Owner> known_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_IDENTITY_POD_PROOF_H_
