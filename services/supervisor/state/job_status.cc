#include "services/supervisor/state/job_status.h"

#include "google/protobuf/timestamp.pb.h"
#include "services/supervisor/store/convert.h"

namespace adaptdl::supervisor {
namespace {

// Time that the job has spent with all replicas running, up to now.
absl::Duration RunningTime(const jobs::Job& state, absl::Time now) {
  const bool runs = state.running_since != absl::InfinitePast() && now > state.running_since;
  return runs ? state.running_time + (now - state.running_since) : state.running_time;
}

// Times that have not come about stay absent.
void PutTime(absl::Time time, google::protobuf::Timestamp* (v1::JobStatus::*field)(), v1::JobStatus* status) {
  if (time != absl::InfinitePast()) *(status->*field)() = ToProto(time);
}

// What only people read. An error of the checkpoints is not among it: what was done since the last one would
// be lost.
void FillForPeople(const JobRecord& record, v1::JobStatus* status) {
  status->set_reason(record.state.reason);
  status->set_message(record.state.message);
  PutTime(record.times.retry, &v1::JobStatus::mutable_retry_time, status);
  PutTime(record.times.estimated_completion, &v1::JobStatus::mutable_estimated_completion_time, status);
}

}  // namespace

void FillStatus(const JobRecord& record, Audience audience, absl::Time now, v1::JobStatus* status) {
  const jobs::Job& state = record.state;
  status->set_phase(ToProto(state.phase));
  status->set_group(state.group);
  status->mutable_allocation()->Assign(state.allocation.begin(), state.allocation.end());
  status->set_restarts(state.restarts);
  status->set_failures(state.failures);
  status->set_rescales(state.rescales);
  status->set_cancel_requested(state.cancel_requested);
  PutTime(record.times.submitted, &v1::JobStatus::mutable_submit_time, status);
  PutTime(record.times.started, &v1::JobStatus::mutable_start_time, status);
  PutTime(record.times.completed, &v1::JobStatus::mutable_completion_time, status);
  const absl::Duration running_time = RunningTime(state, now);
  // The allocator's messages have always held it.
  if (running_time > absl::ZeroDuration() || audience == Audience::kAllocator) {
    *status->mutable_running_time() = ToProto(running_time);
  }
  if (state.rescale_duration != absl::ZeroDuration()) {
    *status->mutable_rescale_duration() = ToProto(state.rescale_duration);
  }
  if (record.hints.has_value()) *status->mutable_hints() = *record.hints;
  if (record.progress.has_value()) *status->mutable_progress() = *record.progress;
  status->set_checkpoint_error(record.checkpoint_error);
  const AllocationDecision& decision = record.decision;
  status->mutable_desired_allocation()->Assign(decision.nodes.begin(), decision.nodes.end());
  status->set_allocation_reason(decision.reason);
  status->mutable_allocation_explanation()->Assign(decision.explanation.begin(), decision.explanation.end());
  if (audience == Audience::kUsers) FillForPeople(record, status);
}

bool TakesSteps(jobs::Phase phase) {
  return phase == jobs::Phase::kRunning || phase == jobs::Phase::kRescaling;
}

v1::Job DescribeJob(const JobEntry& entry, absl::Time now) {
  v1::Job job = *entry.record.job;
  v1::JobStatus* status = job.mutable_status();
  FillStatus(entry.record, Audience::kUsers, now, status);
  if (TakesSteps(entry.record.state.phase) && !entry.standstill.empty()) {
    status->set_reason(std::string(kNoSteps));
    status->set_message(entry.standstill);
  }
  for (const auto& replica : entry.replicas) {
    if (replica->replica.group() == entry.record.state.group) *status->add_replicas() = replica->replica;
  }
  return job;
}

}  // namespace adaptdl::supervisor
