#include "services/supervisor/scheduling/allocation_checks.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/jobspec/placement.h"
#include "services/supervisor/calls/pages.h"
#include "services/supervisor/state/amounts.h"
#include "services/supervisor/state/node_use.h"

namespace adaptdl::supervisor {
namespace {

// Whether the job may have so many replicas.
absl::Status CheckCount(const std::string& name, const v1::JobSpec& spec, int count) {
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
  return absl::OkStatus();
}

}  // namespace

bool SameNodes(const AllocationDecision& decision, const v1::JobAllocation& allocation) {
  return std::equal(decision.nodes.begin(), decision.nodes.end(), allocation.node_ids().begin(),
                    allocation.node_ids().end());
}

absl::Status CheckAllocation(const Transaction& transaction, const v1::JobAllocation& allocation) {
  const std::string name = absl::StrCat("allocations: job \"", allocation.name(), "\"");
  const JobEntry* job = transaction.FindJobByName(NamespaceOr(allocation.namespace_()), allocation.name());
  if (job == nullptr || job->record.uid() != allocation.job_uid()) {
    return absl::InvalidArgumentError(absl::StrCat(name, " with uid \"", allocation.job_uid(),
                                                   "\" does not exist; decide again on the newest snapshot"));
  }
  const jobs::Phase phase = job->record.state.phase;
  const v1::JobSpec& spec = job->record.job->spec();
  if (jobs::IsTerminal(phase)) {
    return absl::InvalidArgumentError(absl::StrCat(name, " has finished; leave it out"));
  }
  if (SameNodes(job->record.decision, allocation)) return absl::OkStatus();
  if (spec.suspend()) {
    return absl::InvalidArgumentError(absl::StrCat(name, " is held by its user; leave it out"));
  }
  const bool active =
      phase == jobs::Phase::kStarting || phase == jobs::Phase::kRunning || phase == jobs::Phase::kRescaling;
  if (active && !spec.preemptible()) {
    return absl::InvalidArgumentError(absl::StrCat(name, " runs and is not preemptible; leave it as it is"));
  }
  const absl::Status counted = CheckCount(name, spec, allocation.node_ids_size());
  if (!counted.ok()) return counted;
  for (const std::string& id : allocation.node_ids()) {
    const NodeEntry* node = transaction.FindNode(id);
    if (node != nullptr && node->phase() == v1::NODE_PHASE_READY) {
      const std::string why = jobspec::WhyNot(spec.template_().placement(), node->record.node);
      if (why.empty()) continue;
      return absl::InvalidArgumentError(absl::StrCat(name, ": node \"", id, "\" ", why));
    }
    return absl::InvalidArgumentError(absl::StrCat(
        name, ": node \"", id, "\" ", node == nullptr ? "does not exist" : "takes no new replicas"));
  }
  return absl::OkStatus();
}

absl::Status CheckCapacity(const Transaction& transaction) {
  for (const std::string& id : transaction.NodesInPlay()) {
    const NodeEntry* node = transaction.FindNode(id);
    // Jobs may still want a node that is lost; nobody launches there.
    if (node == nullptr || node->phase() != v1::NODE_PHASE_READY) continue;
    // A node that has lost a GPU may be given away beyond what it has left, until its jobs have moved: that
    // is no reason to refuse others what does not make it worse.
    Amounts limit(node->record.node.capacity());
    if (const NodeUse::Use* before = transaction.base().use.Find(id)) limit.RaiseTo(before->wanted);
    const std::string excess = transaction.UseOf(id).wanted.Excess(limit);
    if (!excess.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("allocations: node \"", id, "\" is given more than it has (", excess, ")"));
    }
  }
  return absl::OkStatus();
}

}  // namespace adaptdl::supervisor
