#include "services/supervisor/store/job_codec.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "google/protobuf/timestamp.pb.h"
#include "services/supervisor/store/convert.h"

namespace adaptdl::supervisor {
namespace {

// `field` is made only for a time that there is.
template <typename Message>
void PutTime(absl::Time time, google::protobuf::Timestamp* (Message::*field)(), Message* message) {
  if (time != absl::InfinitePast()) *(message->*field)() = ToProto(time);
}

template <typename Message>
void PutDuration(absl::Duration duration, google::protobuf::Duration* (Message::*field)(), Message* message) {
  if (duration != absl::ZeroDuration()) *(message->*field)() = ToProto(duration);
}

void PutTexts(const std::vector<std::string>& texts, google::protobuf::RepeatedPtrField<std::string>* field) {
  field->Assign(texts.begin(), texts.end());
}

std::vector<std::string> ToVector(const google::protobuf::RepeatedPtrField<std::string>& texts) {
  return {texts.begin(), texts.end()};
}

void PutPlan(const jobs::Plan& plan, store::v1::StoredPlan* stored) {
  using store::v1::StoredPlan;
  stored->set_group(plan.group);
  for (const jobs::PlanMember& member : plan.members) {
    store::v1::StoredMember* added = stored->add_members();
    added->set_replica_id(member.replica_id);
    added->set_node(member.node);
  }
  stored->set_committed(plan.committed);
  stored->set_broken(plan.broken);
  stored->set_offered(plan.offered);
  PutTime(plan.since, &StoredPlan::mutable_since, stored);
  PutDuration(plan.ready_after, &StoredPlan::mutable_ready_after, stored);
}

jobs::Plan ToPlan(const store::v1::StoredPlan& stored) {
  jobs::Plan plan;
  plan.group = stored.group();
  for (const store::v1::StoredMember& member : stored.members()) {
    plan.members.push_back({member.replica_id(), member.node()});
  }
  plan.committed = stored.committed();
  plan.broken = stored.broken();
  plan.offered = stored.offered();
  plan.since = ToTimeIf(stored.has_since(), stored.since());
  plan.ready_after = ToDuration(stored.ready_after());
  return plan;
}

void PutState(const jobs::Job& state, StoredJob* stored) {
  stored->set_phase(ToProto(state.phase));
  stored->set_reason(state.reason);
  stored->set_message(state.message);
  stored->set_group(state.group);
  PutTexts(state.allocation, stored->mutable_allocation());
  stored->set_last_group(state.last_group);
  for (const jobs::Plan& plan : state.plans) PutPlan(plan, stored->add_plans());
  stored->set_rescales(state.rescales);
  stored->set_rescale_note(state.rescale_note);
  stored->set_newcomer_failures(state.newcomer_failures);
  stored->set_restarts(state.restarts);
  stored->set_failures(state.failures);
  stored->set_cancel_requested(state.cancel_requested);
  stored->set_start_expired(state.start_expired);
  PutTime(state.running_since, &StoredJob::mutable_running_since, stored);
  PutDuration(state.running_time, &StoredJob::mutable_running_time, stored);
  PutTime(state.rescaling_since, &StoredJob::mutable_rescaling_since, stored);
  PutDuration(state.rescale_duration, &StoredJob::mutable_rescale_duration, stored);
}

void TakeState(const StoredJob& stored, jobs::Job* state) {
  state->phase = ToPhase(stored.phase());
  state->reason = stored.reason();
  state->message = stored.message();
  state->group = stored.group();
  state->allocation = ToVector(stored.allocation());
  state->last_group = stored.last_group();
  for (const store::v1::StoredPlan& plan : stored.plans()) state->plans.push_back(ToPlan(plan));
  state->rescales = stored.rescales();
  state->rescale_note = stored.rescale_note();
  state->newcomer_failures = stored.newcomer_failures();
  state->restarts = stored.restarts();
  state->failures = stored.failures();
  state->cancel_requested = stored.cancel_requested();
  state->start_expired = stored.start_expired();
  state->running_since = ToTimeIf(stored.has_running_since(), stored.running_since());
  state->running_time = ToDuration(stored.running_time());
  state->rescaling_since = ToTimeIf(stored.has_rescaling_since(), stored.rescaling_since());
  state->rescale_duration = ToDuration(stored.rescale_duration());
}

void PutDecision(const AllocationDecision& decision, store::v1::StoredDecision* stored) {
  PutTexts(decision.nodes, stored->mutable_nodes());
  stored->set_reason(decision.reason);
  PutTexts(decision.explanation, stored->mutable_explanation());
  stored->set_unschedulable(decision.unschedulable);
}

AllocationDecision ToDecision(const store::v1::StoredDecision& stored) {
  return {ToVector(stored.nodes()), stored.reason(), ToVector(stored.explanation()), stored.unschedulable()};
}

void PutTimes(const JobTimes& times, StoredJob* stored) {
  PutTime(times.submitted, &StoredJob::mutable_submitted, stored);
  PutTime(times.started, &StoredJob::mutable_started, stored);
  PutTime(times.completed, &StoredJob::mutable_completed, stored);
  PutTime(times.retry, &StoredJob::mutable_retry, stored);
  PutTime(times.estimated_completion, &StoredJob::mutable_estimated_completion, stored);
}

JobTimes ToTimes(const StoredJob& stored) {
  JobTimes times;
  times.submitted = ToTimeIf(stored.has_submitted(), stored.submitted());
  times.started = ToTimeIf(stored.has_started(), stored.started());
  times.completed = ToTimeIf(stored.has_completed(), stored.completed());
  times.retry = ToTimeIf(stored.has_retry(), stored.retry());
  times.estimated_completion = ToTimeIf(stored.has_estimated_completion(), stored.estimated_completion());
  return times;
}

void PutUpdate(const v1::JobSpec& spec, store::v1::StoredUpdate* update) {
  update->set_min_replicas(spec.min_replicas());
  update->set_max_replicas(spec.max_replicas());
  update->set_priority(spec.priority());
  update->set_suspend(spec.suspend());
}

// The row's specification is what was submitted, however often it was updated: it may be large, and is written once.
std::shared_ptr<const v1::Job> Updated(const v1::Job& submitted, const store::v1::StoredUpdate& update) {
  auto job = std::make_shared<v1::Job>(submitted);
  job->mutable_spec()->set_min_replicas(update.min_replicas());
  job->mutable_spec()->set_max_replicas(update.max_replicas());
  job->mutable_spec()->set_priority(update.priority());
  job->mutable_spec()->set_suspend(update.suspend());
  return job;
}

}  // namespace

StoredJob ToStored(const JobRecord& record) {
  StoredJob stored;
  PutState(record.state, &stored);
  PutUpdate(record.job->spec(), stored.mutable_update());
  PutDecision(record.decision, stored.mutable_decision());
  PutTimes(record.times, &stored);
  if (record.hints.has_value()) *stored.mutable_hints() = *record.hints;
  if (record.progress.has_value()) *stored.mutable_progress() = *record.progress;
  stored.set_checkpoint_error(record.checkpoint_error);
  return stored;
}

void FromStored(const StoredJob& stored, JobRecord* record) {
  if (stored.has_update()) record->job = Updated(*record->job, stored.update());
  record->state = NewState(*record->job);
  TakeState(stored, &record->state);
  record->decision = ToDecision(stored.decision());
  record->times = ToTimes(stored);
  if (stored.has_hints()) record->hints = stored.hints();
  if (stored.has_progress()) record->progress = stored.progress();
  record->checkpoint_error = stored.checkpoint_error();
  record->state.tells_progress = TellsProgress(*record);
}

}  // namespace adaptdl::supervisor
