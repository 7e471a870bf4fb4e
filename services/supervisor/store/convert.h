// Between the messages that are stored and sent, and the plain structs that libs/jobs works on. Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_STORE_CONVERT_H_
#define ADAPTDL_SERVICES_SUPERVISOR_STORE_CONVERT_H_

#include "absl/time/time.h"
#include "adaptdl/v1/job.pb.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"
#include "libs/base/clock.h"
#include "libs/jobs/job.h"
#include "services/supervisor/store/records.h"

namespace adaptdl::supervisor {

google::protobuf::Timestamp ToProto(absl::Time time);
absl::Time ToTime(const google::protobuf::Timestamp& timestamp);
google::protobuf::Duration ToProto(absl::Duration duration);
absl::Duration ToDuration(const google::protobuf::Duration& duration);

v1::JobPhase ToProto(jobs::Phase phase);
bool IsTerminal(v1::JobPhase phase);

jobs::Job ToJob(const JobRecord& record);
// Stores what the state machine may change; it was run at `now`.
void StoreJob(const jobs::Job& job, const Moment& now, JobRecord* record);

// `node_leaving_now`: whether the node is being drained or taken away at this moment.
jobs::Replica ToReplica(const ReplicaRecord& record, bool node_leaving_now);

bool IsLive(const v1::Replica& replica);

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_STORE_CONVERT_H_
