#include "libs/elastic/control/grpc/pending_reports.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "libs/base/utf8.h"
#include "libs/elastic/control/grpc/conversions.h"

namespace adaptdl::elastic {
namespace {

// Bytes of the reason why a group is broken: a message of protobuf takes valid UTF-8 only.
constexpr size_t kMaxReason = 1000;
// Bytes of the reason why a checkpoint could not be written.
constexpr size_t kMaxError = 1024;

}  // namespace

void PendingReports::BeginStream() {
  acknowledged_ = 0;
  entered_.reset();
}

void PendingReports::Acknowledge(int64_t id) { acknowledged_ = std::max(acknowledged_, id); }

void PendingReports::Entered(const GroupMembership& group) { entered_ = {group, ++newest_}; }

void PendingReports::Broken(int64_t group, const std::string& reason) {
  v1::GroupBroken broken;
  broken.set_group(group);
  broken.set_reason(ToUtf8(reason, kMaxReason));
  broken_ = {std::move(broken), ++newest_};
}

void PendingReports::Rescaled(const RescaleTimes& times) { rescale_ = {ToProto(times), ++newest_}; }

bool PendingReports::CheckpointTaken(int64_t step, const absl::Status& status) {
  const bool was_well = !checkpoint_.has_value() || checkpoint_->content.error().empty();
  v1::CheckpointResult result;
  result.set_step(step);
  if (!status.ok()) result.set_error(absl::CEscape(status.message()).substr(0, kMaxError));
  checkpoint_ = {std::move(result), ++newest_};
  return status.ok() != was_well;
}

std::optional<int64_t> PendingReports::broken_group() const {
  return broken_.has_value() ? std::optional<int64_t>(broken_->content.group()) : std::nullopt;
}

void PendingReports::ForgetBrokenBefore(int64_t group) {
  if (broken_.has_value() && broken_->content.group() < group) broken_.reset();
}

void PendingReports::FillIn(bool leads, v1::HeartbeatRequest* request) const {
  if (const GroupMembership* group = entered()) {
    request->mutable_entered_group()->set_group(group->group);
    request->mutable_entered_group()->set_token(group->token);
  }
  // Whoever enters a group says whether it trains there.
  if (IsDue(broken_) || (broken_.has_value() && IsDue(entered_)))
    *request->mutable_broken() = broken_->content;
  if (IsDue(rescale_)) *request->mutable_rescale() = rescale_->content;
  if (leads && IsDue(checkpoint_)) *request->mutable_checkpoint() = checkpoint_->content;
  request->set_report_id(newest_);
}

}  // namespace adaptdl::elastic
