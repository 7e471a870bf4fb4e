// How a replica proves who it is before it knows its group's token: by what it runs in. Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_REPLICAS_REPLICA_PROOF_H_
#define ADAPTDL_SERVICES_SUPERVISOR_REPLICAS_REPLICA_PROOF_H_

#include <string>

#include "absl/status/status.h"
#include "adaptdl/v1/replica_service.pb.h"

namespace adaptdl::supervisor {

class ReplicaProof {
 public:
  virtual ~ReplicaProof() = default;

  // Whether whoever has this token is the replica. May wait for somebody else. UNAUTHENTICATED: it is not.
  // UNAVAILABLE: that can't be found out now.
  virtual absl::Status Check(const v1::ReplicaIdentity& identity, const std::string& token) = 0;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_REPLICAS_REPLICA_PROOF_H_
