#include "libs/elastic/job/team.h"

#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace adaptdl::elastic {

std::vector<std::string> Team::Gather(const std::string& value) {
  ending_->ExitIfFenced();
  // Between a backward pass and its step: without its gradients there is nothing that the rest of the body
  // could be about.
  if (const absl::Status failure = step_.TakeFailure(); !failure.ok()) {
    RecoverStep(failure);
    return {};
  }
  if (step_.is_void()) return {};
  watch_->BeginWait();
  auto values = group_.Gather(value, /*in_step=*/step_.open());
  watch_->EndWait();
  ending_->Check(values.status());
  if (values->has_value()) return **std::move(values);
  // A part of the step was applied, and cannot be taken back.
  if (step_.taken()) ending_->Fail(absl::UnavailableError("a member was lost between two parts of a step"));
  step_.Void();
  return {};
}

int64_t Team::SumOf(int64_t value) {
  int64_t sum = 0;
  for (const std::string& text : Gather(absl::StrCat(value))) sum += std::strtoll(text.c_str(), nullptr, 10);
  return sum;
}

Group::StepFate Team::RecoverStep(const absl::Status& failure) {
  ending_->ExitIfFenced();
  (void)step_.TakeFailure();
  // A part of the step was applied, and cannot be taken back.
  if (step_.taken()) ending_->Fail(failure);
  watch_->BeginWait();
  const absl::StatusOr<Group::StepFate> fate = group_.RecoverStep(failure);
  watch_->EndWait();
  ending_->Check(fate.status());
  step_.AbandonExchange();
  if (*fate == Group::StepFate::kVoid) step_.Void();
  return *fate;
}

void Team::Follow(int64_t plan) {
  watch_->BeginWait();
  const absl::Status followed = group_.Follow(plan);
  watch_->EndWait();
  ending_->Check(followed);
}

void Team::OnGroupChange(const void* owner, GroupHandler handler) {
  if (handler) {
    handlers_[owner] = std::move(handler);
  } else {
    handlers_.erase(owner);
  }
}

void Team::OnPlanned(const void* owner, Readiness is_ready) {
  if (is_ready) {
    readiness_[owner] = std::move(is_ready);
  } else {
    readiness_.erase(owner);
  }
}

bool Team::IsReadyForPlan() const {
  const int size = group_.PlannedSize();
  // All are asked, so that all begin.
  int waiting = 0;
  for (const auto& [owner, is_ready] : readiness_) waiting += size > 0 && !is_ready(size) ? 1 : 0;
  return waiting == 0;
}

void Team::TellGroupChange(bool keeps_step) {
  for (const auto& [owner, handler] : handlers_) handler(keeps_step);
}

}  // namespace adaptdl::elastic
