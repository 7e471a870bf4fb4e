#include "services/supervisor/store/convert.h"

#include <utility>

#include "libs/jobs/replica_id.h"

namespace adaptdl::supervisor {
namespace {

jobs::ReplicaState ToState(v1::ReplicaState state) {
  switch (state) {
    case v1::REPLICA_STATE_RUNNING:
      return jobs::ReplicaState::kRunning;
    case v1::REPLICA_STATE_EXITED:
      return jobs::ReplicaState::kExited;
    case v1::REPLICA_STATE_LOST:
      return jobs::ReplicaState::kLost;
    default:
      return jobs::ReplicaState::kLaunching;
  }
}

}  // namespace

absl::Time ToTimeIf(bool present, const google::protobuf::Timestamp& timestamp) {
  return present ? ToTime(timestamp) : absl::InfinitePast();
}

v1::JobPhase ToProto(jobs::Phase phase) {
  switch (phase) {
    case jobs::Phase::kPending:
      return v1::JOB_PHASE_PENDING;
    case jobs::Phase::kStarting:
      return v1::JOB_PHASE_STARTING;
    case jobs::Phase::kRunning:
      return v1::JOB_PHASE_RUNNING;
    case jobs::Phase::kStopping:
      return v1::JOB_PHASE_STOPPING;
    case jobs::Phase::kSucceeded:
      return v1::JOB_PHASE_SUCCEEDED;
    case jobs::Phase::kFailed:
      return v1::JOB_PHASE_FAILED;
    case jobs::Phase::kCancelled:
      return v1::JOB_PHASE_CANCELLED;
    case jobs::Phase::kRescaling:
      return v1::JOB_PHASE_RESCALING;
  }
  return v1::JOB_PHASE_UNSPECIFIED;
}

jobs::Phase ToPhase(v1::JobPhase phase) {
  switch (phase) {
    case v1::JOB_PHASE_STARTING:
      return jobs::Phase::kStarting;
    case v1::JOB_PHASE_RUNNING:
      return jobs::Phase::kRunning;
    case v1::JOB_PHASE_STOPPING:
      return jobs::Phase::kStopping;
    case v1::JOB_PHASE_SUCCEEDED:
      return jobs::Phase::kSucceeded;
    case v1::JOB_PHASE_FAILED:
      return jobs::Phase::kFailed;
    case v1::JOB_PHASE_CANCELLED:
      return jobs::Phase::kCancelled;
    case v1::JOB_PHASE_RESCALING:
      return jobs::Phase::kRescaling;
    default:
      return jobs::Phase::kPending;
  }
}

jobs::Job NewState(const v1::Job& job) {
  jobs::Job state;
  const v1::JobSpec& spec = job.spec();
  state.id_prefix = jobs::ReplicaIdPrefix(job.name(), job.uid());
  state.preemptible = spec.preemptible();
  state.rescales_in_place = spec.rescale() == v1::RESCALE_MODE_IN_PLACE;
  state.min_replicas = spec.min_replicas();
  state.max_replicas = spec.max_replicas();
  state.allowed_replicas.assign(spec.allowed_replicas().begin(), spec.allowed_replicas().end());
  state.max_restarts = spec.max_restarts();
  state.suspended = spec.suspend();
  return state;
}

void TakeUpdate(std::shared_ptr<const v1::Job> job, JobRecord* record) {
  const v1::JobSpec& spec = job->spec();
  record->state.min_replicas = spec.min_replicas();
  record->state.max_replicas = spec.max_replicas();
  record->state.suspended = spec.suspend();
  if (spec.suspend()) record->decision = {};
  record->job = std::move(job);
}

// A program that reports hints and no progress is AdaptDL's Python package: its rendezvous is the last thing
// that it tells before it trains.
bool TellsProgress(const JobRecord& record) {
  return record.progress.has_value() || record.hints.has_value();
}

void SetState(jobs::Job state, const Moment& now, JobRecord* record) {
  JobTimes& times = record->times;
  if (state.retry_time != record->state.retry_time) times.retry = now.ToWall(state.retry_time);
  // Both happen once.
  if (times.started == absl::InfinitePast()) times.started = now.ToWall(state.start_time);
  if (times.completed == absl::InfinitePast()) times.completed = now.ToWall(state.completion_time);
  record->state = std::move(state);
}

namespace {

jobs::Cause ToCause(v1::EndCause cause) {
  switch (cause) {
    case v1::END_CAUSE_JOB:
      return jobs::Cause::kJob;
    case v1::END_CAUSE_NODE:
      return jobs::Cause::kNode;
    case v1::END_CAUSE_STORAGE:
      return jobs::Cause::kStorage;
    case v1::END_CAUSE_PREEMPTION:
      return jobs::Cause::kPreemption;
    case v1::END_CAUSE_IMAGE:
      return jobs::Cause::kImage;
    default:  // Of a newer worker.
      return jobs::Cause::kUnknown;
  }
}

}  // namespace

jobs::Replica ToReplica(const ReplicaRecord& record, bool node_leaving_now) {
  jobs::Replica replica;
  replica.id = record.replica.replica_id();
  replica.group = record.replica.group();
  replica.rank = record.replica.rank();
  replica.node = record.replica.node_id();
  replica.state = ToState(record.replica.state());
  replica.exit_code = record.replica.exit_code();
  replica.signal = record.replica.signal();
  replica.loss = record.loss;
  replica.cause = ToCause(record.replica.end_cause());
  replica.message = record.replica.message();
  replica.stop_requested = record.stop_requested;
  replica.joined = record.replica.joined();
  replica.rescales_in_place = record.rescales_in_place;
  replica.end_handled = record.end_handled;
  // What counts is how things stood when it ended.
  replica.node_leaving = IsLive(record.replica) ? node_leaving_now : record.node_leaving;
  return replica;
}

bool IsLive(const v1::Replica& replica) {
  return replica.state() == v1::REPLICA_STATE_LAUNCHING || replica.state() == v1::REPLICA_STATE_RUNNING;
}

}  // namespace adaptdl::supervisor
