#include "services/worker/replica_end.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "libs/messages/proto_time.h"

namespace adaptdl::worker {
namespace {

v1::EndCause ToProto(Cause cause) {
  switch (cause) {
    case Cause::kUnknown:
      break;
    case Cause::kJob:
      return v1::END_CAUSE_JOB;
    case Cause::kNode:
      return v1::END_CAUSE_NODE;
    case Cause::kStorage:
      return v1::END_CAUSE_STORAGE;
    case Cause::kPreemption:
      return v1::END_CAUSE_PREEMPTION;
    case Cause::kImage:
      return v1::END_CAUSE_IMAGE;
  }
  return v1::END_CAUSE_UNSPECIFIED;
}

}  // namespace

bool HasEnded(const v1::Replica& replica) {
  return replica.state() == v1::REPLICA_STATE_EXITED || replica.state() == v1::REPLICA_STATE_LOST;
}

ExitRecord NotStarted(const absl::Status& reason, Cause cause, absl::Time now) {
  ExitRecord record;
  record.cause = cause;
  record.lost = cause != Cause::kJob;
  record.exit_code = record.lost ? 0 : kExitCannotExecute;
  record.message = std::string(reason.message());
  record.start_time = record.end_time = now;
  return record;
}

ExitRecord CalledOff(const std::string& reason, absl::Time now) {
  ExitRecord record;
  record.exit_code = kExitStopped;
  record.message = absl::StrCat("stopped before it was started: ", reason);
  record.start_time = record.end_time = now;
  return record;
}

void SetEnded(const ExitRecord& record, v1::Replica* replica) {
  replica->set_state(record.lost ? v1::REPLICA_STATE_LOST : v1::REPLICA_STATE_EXITED);
  replica->set_exit_code(record.exit_code);
  replica->set_signal(record.signal);
  replica->set_message(record.message);
  replica->set_end_cause(ToProto(record.cause));
  if (record.start_time > absl::UnixEpoch())
    *replica->mutable_start_time() = messages::ToProto(record.start_time);
  *replica->mutable_end_time() = messages::ToProto(record.end_time);
}

}  // namespace adaptdl::worker
