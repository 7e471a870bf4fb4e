#include "services/supervisor/store/convert.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace adaptdl::supervisor {
namespace {

template <typename Repeated>
std::vector<std::string> ToVector(const Repeated& values) {
  return {values.begin(), values.end()};
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

google::protobuf::Timestamp ToProto(absl::Time time) {
  google::protobuf::Timestamp timestamp;
  timestamp.set_seconds(absl::ToUnixSeconds(time));
  const absl::Duration rest = time - absl::FromUnixSeconds(timestamp.seconds());
  timestamp.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
  return timestamp;
}

absl::Time ToTime(const google::protobuf::Timestamp& timestamp) {
  return absl::FromUnixSeconds(timestamp.seconds()) + absl::Nanoseconds(timestamp.nanos());
}

google::protobuf::Duration ToProto(absl::Duration duration) {
  google::protobuf::Duration result;
  absl::Duration rest;
  result.set_seconds(absl::IDivDuration(duration, absl::Seconds(1), &rest));
  result.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
  return result;
}

absl::Duration ToDuration(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos());
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

bool IsTerminal(v1::JobPhase phase) {
  return phase == v1::JOB_PHASE_SUCCEEDED || phase == v1::JOB_PHASE_FAILED ||
         phase == v1::JOB_PHASE_CANCELLED;
}

jobs::Job ToJob(const JobRecord& record) {
  const v1::JobStatus& status = record.status;
  jobs::Job job;
  const v1::JobSpec& spec = record.job->spec();
  job.id_prefix = absl::StrCat(record.job->name(), "-", record.uid().substr(0, 8));
  job.preemptible = spec.preemptible();
  job.rescales_in_place = spec.rescale() == v1::RESCALE_MODE_IN_PLACE;
  job.min_replicas = spec.min_replicas();
  job.max_replicas = spec.max_replicas();
  job.allowed_replicas.assign(spec.allowed_replicas().begin(), spec.allowed_replicas().end());
  job.max_restarts = spec.max_restarts();
  job.phase = ToPhase(status.phase());
  job.reason = status.reason();
  job.message = status.message();
  job.group = status.group();
  job.allocation = ToVector(status.allocation());
  // Every group and every plan has a secret.
  job.last_group = record.tokens.empty() ? job.group : std::max(job.group, record.tokens.rbegin()->first);
  job.plans = record.plans;
  job.rescales = status.rescales();
  job.rescale_note = record.rescale_note;
  job.newcomer_failures = record.newcomer_failures;
  job.restarts = status.restarts();
  job.failures = status.failures();
  job.faults = record.faults;
  job.cancel_requested = status.cancel_requested();
  job.retry_time = record.retry_time;
  job.starting_since = record.starting_since;
  job.running_since = record.running_since;
  if (status.has_start_time()) job.start_time = ToTime(status.start_time());
  if (status.has_completion_time()) job.completion_time = ToTime(status.completion_time());
  job.running_time = ToDuration(status.running_time());
  // A program that reports hints and no progress is AdaptDL's Python package: its rendezvous is the last
  // thing that it tells before it trains.
  job.tells_progress = status.has_progress() || status.has_hints();
  job.rescaling_since = record.rescaling_since;
  job.rescale_duration = ToDuration(status.rescale_duration());
  return job;
}

void StoreJob(const jobs::Job& job, const Moment& now, JobRecord* record) {
  v1::JobStatus* status = &record->status;
  status->set_phase(ToProto(job.phase));
  status->set_reason(job.reason);
  status->set_message(job.message);
  status->set_group(job.group);
  status->mutable_allocation()->Assign(job.allocation.begin(), job.allocation.end());
  status->set_rescales(job.rescales);
  status->set_restarts(job.restarts);
  status->set_failures(job.failures);
  if (job.retry_time == absl::InfinitePast()) {
    status->clear_retry_time();
  } else if (job.retry_time != record->retry_time) {
    *status->mutable_retry_time() = ToProto(now.ToWall(job.retry_time));
  }
  // Both happen once, and what people read stays what the wall showed then.
  if (job.start_time != absl::InfinitePast() && !status->has_start_time()) {
    *status->mutable_start_time() = ToProto(now.ToWall(job.start_time));
  }
  if (job.completion_time != absl::InfinitePast() && !status->has_completion_time()) {
    *status->mutable_completion_time() = ToProto(now.ToWall(job.completion_time));
  }
  if (job.running_time != absl::ZeroDuration()) *status->mutable_running_time() = ToProto(job.running_time);
  if (job.rescale_duration != absl::ZeroDuration()) {
    *status->mutable_rescale_duration() = ToProto(job.rescale_duration);
  }
  record->starting_since = job.starting_since;
  record->retry_time = job.retry_time;
  record->running_since = job.running_since;
  record->rescaling_since = job.rescaling_since;
  record->plans = job.plans;
  record->rescale_note = job.rescale_note;
  record->newcomer_failures = job.newcomer_failures;
  record->faults = job.faults;
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
