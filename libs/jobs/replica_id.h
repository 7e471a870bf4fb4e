// The names of replicas: "<job>-<first 8 of its uid>-<launch group>-<launch rank>". No two replicas have the same, of whichever
// namespace and job. Pure functions.

#ifndef ADAPTDL_LIBS_JOBS_REPLICA_ID_H_
#define ADAPTDL_LIBS_JOBS_REPLICA_ID_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace adaptdl::jobs {

// What the names of all of a job's replicas begin with, but for the last "-".
std::string ReplicaIdPrefix(absl::string_view job, absl::string_view uid);

std::string ReplicaId(absl::string_view prefix, int64_t launch_group, int launch_rank);

// Whether a replica of the job with this uid may be called so, whatever the job's name.
bool MayBeReplicaOf(absl::string_view replica_id, absl::string_view uid);

}  // namespace adaptdl::jobs

#endif  // ADAPTDL_LIBS_JOBS_REPLICA_ID_H_
