// The allocator's view of the cluster, and what it decides.

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "libs/base/utf8.h"
#include "libs/service/log.h"
#include "services/supervisor/cluster_state.h"
#include "services/supervisor/convert.h"
#include "services/supervisor/validation.h"

namespace adaptdl::supervisor {
namespace {

// In bytes, and in sentences.
constexpr size_t kMaxReason = 1000;
constexpr size_t kMaxHolder = 128;
// So many leases may be given in one term of a supervisor; a term is a number of milliseconds.
constexpr int kLeaseTermBits = 20;
constexpr size_t kMaxSentence = 300;
constexpr int kMaxSentences = 8;

bool SameNodes(const v1::JobStatus& status, const v1::JobAllocation& allocation) {
  return std::equal(status.desired_allocation().begin(), status.desired_allocation().end(),
                    allocation.node_ids().begin(), allocation.node_ids().end());
}

// Takes over why the allocator decided so. False: it is what is known.
bool SetWords(const v1::JobAllocation& allocation, v1::JobStatus* status) {
  const std::string reason = ToUtf8(allocation.reason(), kMaxReason);
  std::vector<std::string> sentences;
  for (int i = 0; i < std::min(allocation.explanation_size(), kMaxSentences); ++i) {
    sentences.push_back(ToUtf8(allocation.explanation(i), kMaxSentence));
  }
  const auto& known = status->allocation_explanation();
  if (status->allocation_reason() == reason &&
      std::equal(known.begin(), known.end(), sentences.begin(), sentences.end())) {
    return false;
  }
  status->set_allocation_reason(reason);
  status->mutable_allocation_explanation()->Assign(sentences.begin(), sentences.end());
  return true;
}

}  // namespace

ClusterView ClusterState::View() const {
  ClusterView view = index_.View();
  view.now = Now();
  return view;
}

ClusterView ClusterState::ViewOfChange(const ClusterNews& news) const {
  ClusterView view = index_.ViewOfChange(news);
  view.now = Now();
  return view;
}

absl::StatusOr<v1::AcquireLeaseResponse> ClusterState::AcquireLease(const v1::AcquireLeaseRequest& request) {
  if (request.holder().empty() || request.holder().size() > kMaxHolder) {
    return absl::InvalidArgumentError(
        absl::StrCat("holder: must have 1 to ", kMaxHolder, " characters; name the allocator's process"));
  }
  if (parts_.lease != nullptr && !parts_.lease->Valid()) {
    return absl::UnavailableError("this supervisor may not lead any more; try again");
  }
  v1::AcquireLeaseResponse response;
  MutexLock lock(&mutex_);
  const absl::Time now = Now();
  AllocatorLease& lease = allocator_lease_;
  if (lease.holder != request.holder() && now >= lease.until) {
    lease.holder = request.holder();
    // Larger than all that other supervisors gave in earlier terms.
    lease.term = std::max(lease.term + 1, term() << kLeaseTermBits);
    log::Info("an allocator has taken the lease",
              {{"allocator", lease.holder}, {"lease_term", absl::StrCat(lease.term)}});
  }
  response.set_granted(lease.holder == request.holder());
  response.set_holder(lease.holder);
  if (response.granted()) {
    lease.until = now + options_.allocator_lease;
    response.set_lease_term(lease.term);
  }
  *response.mutable_duration() = ToProto(lease.until - now);
  return response;
}

absl::Status ClusterState::CheckAllocatorLease(int64_t lease_term, absl::Time now) const {
  if (lease_term == allocator_lease_.term) return absl::OkStatus();
  if (lease_term == 0 && now >= allocator_lease_.until) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("lease_term: ", lease_term, " is not the one that counts; allocator \"",
                   allocator_lease_.holder, "\" decides; acquire the lease first"));
}

absl::StatusOr<v1::ApplyAllocationsResponse> ClusterState::ApplyAllocations(
    const v1::ApplyAllocationsRequest& request, const std::string& caller) {
  if (const absl::Status status = ValidateRequestId(request.request_id()); !status.ok()) return status;
  if (!request.more() && request.page() == 0) return ApplyDecision(request, caller);
  {
    // Only who may decide has anything kept.
    MutexLock lock(&mutex_);
    if (const absl::Status lease = CheckAllocatorLease(request.lease_term(), Now()); !lease.ok())
      return lease;
  }
  const absl::StatusOr<std::optional<v1::ApplyAllocationsRequest>> decision = allocation_pages_.Take(request);
  if (!decision.ok()) return decision.status();
  if (decision->has_value()) return ApplyDecision(**decision, caller);
  v1::ApplyAllocationsResponse response;
  response.set_snapshot_version(request.snapshot_version());
  response.set_kept(true);
  return response;
}

absl::StatusOr<v1::ApplyAllocationsResponse> ClusterState::ApplyDecision(
    const v1::ApplyAllocationsRequest& request, const std::string& caller) {
  const auto change = [&](Transaction* transaction)
                          ABSL_NO_THREAD_SAFETY_ANALYSIS -> absl::StatusOr<v1::ApplyAllocationsResponse> {
    const absl::Status lease = CheckAllocatorLease(request.lease_term(), transaction->now());
    if (!lease.ok()) return lease;
    const absl::Status outdated = absl::AbortedError(absl::StrCat(
        "snapshot_version: ", request.snapshot_version(), " is not the current one, ", tables_.version,
        ", and what was decided on it does not hold any more; decide again on the newest snapshot"));
    // In a busy cluster the snapshot is always a little behind. What still holds is taken.
    const bool stale = request.snapshot_version() != tables_.version;
    if (request.snapshot_version() > tables_.version) return outdated;
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
    if (const absl::Status status = CheckCapacity(*transaction); !status.ok())
      return stale ? outdated : status;
    for (const std::string& uid : taken) Settle(transaction, uid);
    v1::ApplyAllocationsResponse response;
    response.set_snapshot_version(tables_.version + (transaction->SchedulingChanged() ? 1 : 0));
    return response;
  };
  absl::StatusOr<v1::ApplyAllocationsResponse> response =
      Once<v1::ApplyAllocationsResponse>(KeyOf(caller, "", request), change);
  if (Metrics* metrics = metrics_) {
    metrics->CountAllocation(response.ok()                        ? "applied"
                             : absl::IsAborted(response.status()) ? "conflict"
                                                                  : "refused");
  }
  return response;
}

absl::Status ClusterState::CheckAllocation(const Transaction& transaction,
                                           const v1::JobAllocation& allocation) const {
  const std::string name = absl::StrCat("allocations: job \"", allocation.name(), "\"");
  const JobEntry* job = transaction.FindJobByName(NamespaceOr(allocation.namespace_()), allocation.name());
  if (job == nullptr || job->record.uid() != allocation.job_uid()) {
    return absl::InvalidArgumentError(absl::StrCat(name, " with uid \"", allocation.job_uid(),
                                                   "\" does not exist; decide again on the newest snapshot"));
  }
  const v1::JobStatus& status = job->record.status;
  const v1::JobSpec& spec = job->record.job->spec();
  if (IsTerminal(status.phase())) {
    return absl::InvalidArgumentError(absl::StrCat(name, " has finished; leave it out"));
  }
  if (SameNodes(status, allocation)) return absl::OkStatus();
  const int count = allocation.node_ids_size();
  const bool active = status.phase() == v1::JOB_PHASE_STARTING || status.phase() == v1::JOB_PHASE_RUNNING ||
                      status.phase() == v1::JOB_PHASE_RESCALING;
  if (active && !spec.preemptible()) {
    return absl::InvalidArgumentError(absl::StrCat(name, " runs and is not preemptible; leave it as it is"));
  }
  if (count > 0 && count < std::max(1, spec.min_replicas())) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": ", count,
                                                   " replicas are less than its min_replicas, ",
                                                   spec.min_replicas(), "; give none or at least that many"));
  }
  if (spec.max_replicas() > 0 && count > spec.max_replicas()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": ", count, " replicas are more than its max_replicas, ", spec.max_replicas()));
  }
  const auto& allowed = spec.allowed_replicas();
  if (count > 0 && !allowed.empty() && !std::binary_search(allowed.begin(), allowed.end(), count)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": ", count, " replicas are not among its allowed_replicas, ",
                     absl::StrJoin(allowed, ", "), "; give none or one of these"));
  }
  for (const std::string& id : allocation.node_ids()) {
    const NodeEntry* node = transaction.FindNode(id);
    if (node != nullptr && node->phase() == v1::NODE_PHASE_READY) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        name, ": node \"", id, "\" ", node == nullptr ? "does not exist" : "takes no new replicas"));
  }
  return absl::OkStatus();
}

void ClusterState::Allocate(Transaction* transaction, const v1::JobAllocation& allocation) const {
  const JobEntry* before = transaction->FindJob(allocation.job_uid());
  if (SameNodes(before->record.status, allocation) &&
      before->record.unschedulable == allocation.unschedulable()) {
    // A new wording alone is not worth a write.
    v1::JobStatus status = before->record.status;
    if (!SetWords(allocation, &status)) return;
    transaction->EditJobInMemory(allocation.job_uid())->record.status = std::move(status);
    transaction->ShowToAllocator();
    return;
  }
  const bool news = allocation.unschedulable() && !before->record.unschedulable;
  JobEntry* job = transaction->EditJob(allocation.job_uid());
  job->record.unschedulable = allocation.unschedulable();
  job->record.status.mutable_desired_allocation()->CopyFrom(allocation.node_ids());
  SetWords(allocation, &job->record.status);
  if (news) {
    transaction->AddEvent(allocation.job_uid(),
                          {true, "Unschedulable", job->record.status.allocation_reason(), "", ""});
  }
}

absl::Status ClusterState::CheckCapacity(const Transaction& transaction) const {
  for (const std::string& id : transaction.NodesInPlay()) {
    const NodeEntry* node = transaction.FindNode(id);
    // Jobs may still want a node that is lost; nobody launches there.
    if (node == nullptr || node->phase() != v1::NODE_PHASE_READY) continue;
    const std::string excess = transaction.UseOf(id).wanted.Excess(Amounts(node->record.node.capacity()));
    if (!excess.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("allocations: node \"", id, "\" is given more than it has (", excess, ")"));
    }
  }
  return absl::OkStatus();
}

}  // namespace adaptdl::supervisor
