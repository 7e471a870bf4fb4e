#include "services/supervisor/scheduling/scheduling_manager.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/base/utf8.h"
#include "services/supervisor/calls/validation.h"
#include "services/supervisor/scheduling/allocation_checks.h"

namespace adaptdl::supervisor {
namespace {

// In bytes, and in sentences.
constexpr size_t kMaxReason = 1000;
constexpr size_t kMaxHolder = 128;
constexpr size_t kMaxSentence = 300;
constexpr int kMaxSentences = 8;

// Takes over why the allocator decided so. False: it is what is known.
bool SetExplanation(const v1::JobAllocation& allocation, AllocationDecision* decision) {
  const std::string reason = ToUtf8(allocation.reason(), kMaxReason);
  std::vector<std::string> sentences;
  for (int i = 0; i < std::min(allocation.explanation_size(), kMaxSentences); ++i) {
    sentences.push_back(ToUtf8(allocation.explanation(i), kMaxSentence));
  }
  if (decision->reason == reason && decision->explanation == sentences) return false;
  decision->reason = reason;
  decision->explanation = std::move(sentences);
  return true;
}

void Allocate(Transaction* transaction, const v1::JobAllocation& allocation) {
  const JobEntry* before = transaction->FindJob(allocation.job_uid());
  if (SameNodes(before->record.decision, allocation) &&
      before->record.decision.unschedulable == allocation.unschedulable()) {
    // A new wording alone is not worth a write.
    AllocationDecision decision = before->record.decision;
    if (!SetExplanation(allocation, &decision)) return;
    transaction->EditJobInMemory(allocation.job_uid())->record.decision = std::move(decision);
    transaction->ShowToAllocator();
    return;
  }
  const bool news = allocation.unschedulable() && !before->record.decision.unschedulable;
  AllocationDecision& decision = transaction->EditJob(allocation.job_uid())->record.decision;
  decision.unschedulable = allocation.unschedulable();
  decision.nodes = {allocation.node_ids().begin(), allocation.node_ids().end()};
  SetExplanation(allocation, &decision);
  if (news) transaction->AddEvent(allocation.job_uid(), {true, "Unschedulable", decision.reason, "", ""});
}

}  // namespace

ClusterUpdate SchedulingManager::View() const {
  ClusterUpdate view = core_->index().View();
  view.now = core_->Now();
  return view;
}

ClusterUpdate SchedulingManager::ViewOfChange(const ClusterNews& news) const {
  ClusterUpdate view = core_->index().ViewOfChange(news);
  view.now = core_->Now();
  return view;
}

absl::StatusOr<v1::AcquireLeaseResponse> SchedulingManager::AcquireLease(
    const v1::AcquireLeaseRequest& request) {
  if (request.holder().empty() || request.holder().size() > kMaxHolder) {
    return absl::InvalidArgumentError(
        absl::StrCat("holder: must have 1 to ", kMaxHolder, " characters; name the allocator's process"));
  }
  if (!core_->leads()) return absl::UnavailableError("this supervisor may not lead any more; try again");
  return lease_.Acquire(request.holder(), core_->term(), core_->Now());
}

absl::StatusOr<v1::ApplyAllocationsResponse> SchedulingManager::ApplyAllocations(
    const v1::ApplyAllocationsRequest& request, const std::string& caller) {
  if (const absl::Status status = ValidateRequestId(request.request_id()); !status.ok()) return status;
  if (!request.more() && request.page() == 0) return ApplyDecision(request, caller);
  // Only who may decide has anything kept.
  const absl::Status lease = lease_.Check(request.lease_term(), core_->Now());
  if (!lease.ok()) return lease;
  const absl::StatusOr<std::optional<v1::ApplyAllocationsRequest>> decision = pages_.Take(request);
  if (!decision.ok()) return decision.status();
  if (decision->has_value()) return ApplyDecision(**decision, caller);
  v1::ApplyAllocationsResponse response;
  response.set_snapshot_version(request.snapshot_version());
  response.set_kept(true);
  return response;
}

absl::StatusOr<v1::ApplyAllocationsResponse> SchedulingManager::ApplyDecision(
    const v1::ApplyAllocationsRequest& request, const std::string& caller) {
  const auto change = [&](Transaction* transaction) { return Apply(transaction, request); };
  absl::StatusOr<v1::ApplyAllocationsResponse> response =
      core_->UpdateOnce<v1::ApplyAllocationsResponse>(KeyOf(caller, "", request), change);
  if (Metrics* metrics = core_->metrics()) {
    metrics->CountAllocation(response.ok()                        ? "applied"
                             : absl::IsAborted(response.status()) ? "conflict"
                                                                  : "refused");
  }
  return response;
}

absl::StatusOr<v1::ApplyAllocationsResponse> SchedulingManager::Apply(
    Transaction* transaction, const v1::ApplyAllocationsRequest& request) {
  const absl::Status lease = lease_.Check(request.lease_term(), transaction->now());
  if (!lease.ok()) return lease;
  const int64_t version = transaction->base().version;
  const absl::Status outdated = absl::AbortedError(absl::StrCat(
      "snapshot_version: ", request.snapshot_version(), " is not the current one, ", version,
      ", and what was decided on it does not hold any more; decide again on the newest snapshot"));
  // In a busy cluster the snapshot is always a little behind. What still holds is taken.
  const bool stale = request.snapshot_version() != version;
  if (request.snapshot_version() > version) return outdated;
  std::set<std::string> seen;
  std::set<std::string> taken;
  for (const v1::JobAllocation& allocation : request.allocations()) {
    if (!seen.insert(allocation.job_uid()).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("allocations: job \"", allocation.name(), "\" is there twice; give each job once"));
    }
    const absl::Status status = CheckAllocation(*transaction, allocation);
    if (!status.ok() && stale) continue;
    if (!status.ok()) return status;
    Allocate(transaction, allocation);
    taken.insert(allocation.job_uid());
  }
  if (stale && taken.empty() && !seen.empty()) return outdated;
  if (const absl::Status status = CheckCapacity(*transaction); !status.ok()) return stale ? outdated : status;
  for (const std::string& uid : taken) reconciler_->Reconcile(transaction, uid);
  v1::ApplyAllocationsResponse response;
  response.set_snapshot_version(version + (transaction->SchedulingChanged() ? 1 : 0));
  return response;
}

}  // namespace adaptdl::supervisor
