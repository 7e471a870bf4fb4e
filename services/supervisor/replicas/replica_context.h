// Who a replica is, and what it is told. Plain values.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_REPLICAS_REPLICA_CONTEXT_H_
#define ADAPTDL_SERVICES_SUPERVISOR_REPLICAS_REPLICA_CONTEXT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "adaptdl/v1/replica_service.pb.h"

namespace adaptdl::supervisor {

// A replica that has shown who it is.
struct ReplicaContext {
  std::string job_uid;
  std::string replica_id;
  // As the replica said; the job's current one may be newer.
  int64_t group = 0;
};

// Who speaks over AdaptDL's HTTP interface: by the secret in the URL that its program was given, or by where it is.
struct UrlIdentity {
  // Empty: its URL is that of all, and `peer` tells who it is.
  std::string secret;
  int rank = 0;
  // The IP address that the request comes from.
  std::string peer;
  std::string name_space;
  std::string job;
};

// What a replica is to know when it opens a heartbeat stream.
struct Instructions {
  bool stop = false;
  // Whether it is rank 0 of the current group: its progress is the job's.
  bool leads = false;
  // The newest group that it is to change over to, if there is one.
  std::optional<v1::GroupPlan> plan;
  std::string reason;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_REPLICAS_REPLICA_CONTEXT_H_
