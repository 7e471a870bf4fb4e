#include "services/supervisor/store/legacy_job.h"

#include <vector>

#include "absl/time/time.h"
#include "services/supervisor/store/convert.h"

namespace adaptdl::supervisor {
namespace {

void TakeStatus(const v1::JobStatus& status, jobs::Job* state) {
  state->phase = ToPhase(status.phase());
  state->reason = status.reason();
  state->message = status.message();
  state->group = status.group();
  // Grows with the tokens: every group and every plan has one.
  state->last_group = status.group();
  state->allocation = {status.allocation().begin(), status.allocation().end()};
  state->rescales = status.rescales();
  state->restarts = status.restarts();
  state->failures = status.failures();
  state->cancel_requested = status.cancel_requested();
  // They told it by the reason alone.
  state->start_expired = state->phase == jobs::Phase::kStopping && state->reason == "StartDeadlineExceeded";
  state->running_time = ToDuration(status.running_time());
  state->rescale_duration = ToDuration(status.rescale_duration());
}

AllocationDecision DecisionOf(const v1::JobStatus& status) {
  AllocationDecision decision;
  decision.nodes = {status.desired_allocation().begin(), status.desired_allocation().end()};
  decision.reason = status.allocation_reason();
  decision.explanation = {status.allocation_explanation().begin(), status.allocation_explanation().end()};
  return decision;
}

JobTimes TimesOf(const v1::JobStatus& status) {
  JobTimes times;
  times.submitted = ToTimeIf(status.has_submit_time(), status.submit_time());
  times.started = ToTimeIf(status.has_start_time(), status.start_time());
  times.completed = ToTimeIf(status.has_completion_time(), status.completion_time());
  times.retry = ToTimeIf(status.has_retry_time(), status.retry_time());
  times.estimated_completion =
      ToTimeIf(status.has_estimated_completion_time(), status.estimated_completion_time());
  return times;
}

}  // namespace

void FromLegacy(const v1::JobStatus& status, const Statement& row, int column, JobRecord* record) {
  jobs::Job& state = record->state;
  state = NewState(*record->job);
  TakeStatus(status, &state);
  record->decision = DecisionOf(status);
  record->times = TimesOf(status);
  if (status.has_hints()) record->hints = status.hints();
  if (status.has_progress()) record->progress = status.progress();
  record->checkpoint_error = status.checkpoint_error();
  state.tells_progress = TellsProgress(*record);
  state.running_since = FromMicros(row.Integer(column));
  record->decision.unschedulable = row.Integer(column + 1) != 0;
  state.rescaling_since = FromMicros(row.Integer(column + 2));
  state.rescale_note = row.Text(column + 3);
  state.newcomer_failures = static_cast<int>(row.Integer(column + 4));
}

void AddLegacyMember(const Statement& row, std::vector<jobs::Plan>* plans) {
  if (plans->empty() || plans->back().group != row.Integer(1)) {
    jobs::Plan& plan = plans->emplace_back();
    plan.group = row.Integer(1);
    plan.committed = row.Integer(4) != 0;
    plan.offered = row.Integer(5) != 0;
    plan.since = FromMicros(row.Integer(6));
    plan.ready_after = absl::Microseconds(row.Integer(7));
    plan.broken = row.Integer(8) != 0;
  }
  plans->back().members.push_back({row.Text(2), row.Text(3)});
}

}  // namespace adaptdl::supervisor
