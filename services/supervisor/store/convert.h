// Between the messages that are stored and sent, and the plain structs that libs/jobs works on. Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_STORE_CONVERT_H_
#define ADAPTDL_SERVICES_SUPERVISOR_STORE_CONVERT_H_

#include <memory>

#include "absl/time/time.h"
#include "adaptdl/v1/job.pb.h"
#include "google/protobuf/timestamp.pb.h"
#include "libs/base/clock.h"
#include "libs/jobs/job.h"
#include "libs/messages/proto_time.h"
#include "services/supervisor/store/records.h"

namespace adaptdl::supervisor {

using messages::ToDuration;
using messages::ToProto;
using messages::ToTime;

// The time of a field that may be absent: InfinitePast then.
absl::Time ToTimeIf(bool present, const google::protobuf::Timestamp& timestamp);

v1::JobPhase ToProto(jobs::Phase phase);
// What a newer version may say counts as pending.
jobs::Phase ToPhase(v1::JobPhase phase);

// A job as the state machine sees it, of which nothing is known but what the user asks for.
jobs::Job NewState(const v1::Job& job);
// Takes over what an update has changed of the user's job. One that is held is to have no nodes.
void TakeUpdate(std::shared_ptr<const v1::Job> job, JobRecord* record);
// Whether its program tells how far it is, or at least that its replicas have met.
bool TellsProgress(const JobRecord& record);
// Takes over what the state machine made of the record's state at `now`, and what people are to read of it.
void SetState(jobs::Job state, const Moment& now, JobRecord* record);

// `node_leaving_now`: whether the node is being drained or taken away at this moment.
jobs::Replica ToReplica(const ReplicaRecord& record, bool node_leaving_now);

bool IsLive(const v1::Replica& replica);

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_STORE_CONVERT_H_
