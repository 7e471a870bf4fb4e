// What training processes say: who they are, that they have joined, what they have learnt, how far they are.

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/util/message_differencer.h"
#include "libs/service/log.h"
#include "services/supervisor/cluster_state.h"
#include "services/supervisor/convert.h"
#include "services/supervisor/rendezvous.h"
#include "services/supervisor/validation.h"

namespace adaptdl::supervisor {
namespace {

using google::protobuf::util::MessageDifferencer;

absl::Status GroupOver(int64_t group) {
  return absl::AbortedError(absl::StrCat("group ", group, " is over; this replica must stop"));
}

// Whether the group is the one that the job works with now.
bool IsCurrent(const JobEntry& job, int64_t group) {
  return !IsTerminal(job.record.status.phase()) && job.record.status.group() == group &&
         !job.record.status.allocation().empty();
}

}  // namespace

absl::StatusOr<ReplicaContext> ClusterState::Authorize(const v1::ReplicaIdentity& identity,
                                                       const std::string& token) const {
  // One text for all: a stranger does not learn which jobs there are.
  const absl::Status refused = absl::UnauthenticatedError(
      "the group's token is missing or wrong; a replica sends what ADAPTDL_GROUP_TOKEN holds as "
      "\"authorization: Bearer <token>\"");
  MutexLock lock(&mutex_);
  const JobEntry* job = FindEntry(identity.namespace_(), identity.job());
  if (job == nullptr) return refused;
  const auto secret = job->record.tokens.find(identity.group());
  if (secret == job->record.tokens.end() || !SameSecret(secret->second, token)) return refused;
  if (!IsCurrent(*job, identity.group())) return GroupOver(identity.group());
  const int rank = FindMember(job->replicas, identity.replica_id());
  if (rank < 0) {
    return absl::PermissionDeniedError(absl::StrCat("replica \"", identity.replica_id(),
                                                    "\" is no member of group ", identity.group(),
                                                    " of job \"", identity.job(), "\""));
  }
  const ReplicaRecord& replica = *job->replicas[rank];
  // The group goes on without those that were given up.
  if (!IsLive(replica.replica)) return GroupOver(identity.group());
  return ReplicaContext{job->record.uid(), identity.replica_id(), identity.group(), rank,
                        replica.stop_requested};
}

absl::Status ClusterState::JoinGroup(const ReplicaContext& replica, const std::string& address) {
  MutexLock lock(&mutex_);
  Transaction transaction(tables_, Now());
  const JobEntry* job = transaction.FindJob(replica.job_uid);
  if (job == nullptr || !IsCurrent(*job, replica.group)) return GroupOver(replica.group);
  const absl::Status status = CheckJoin(job->replicas, replica.rank, address);
  if (!status.ok()) return status;
  const ReplicaRecord& before = *job->replicas[replica.rank];
  if (before.replica.joined() && before.address == address) return absl::OkStatus();
  ReplicaRecord* record = transaction.EditReplica(replica.job_uid, replica.rank);
  record->address = address;
  record->replica.set_joined(true);
  job = transaction.FindJob(replica.job_uid);
  const bool complete = GroupComplete(job->replicas);
  if (complete) {
    transaction.AddEvent(replica.job_uid, {false, "RendezvousComplete",
                                           absl::StrCat("all ", job->replicas.size(), " members of group ",
                                                        replica.group, " have met"),
                                           "", ""});
  }
  if (const absl::Status stored = Commit(&transaction); !stored.ok()) return stored;
  Metrics* metrics = metrics_;
  if (complete && metrics != nullptr) {
    absl::Time first = Now();
    for (const auto& member : tables_.jobs.at(replica.job_uid)->replicas) {
      if (member->replica.has_start_time()) first = std::min(first, ToTime(member->replica.start_time()));
    }
    metrics->ObserveRendezvous(Now() - first);
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::JoinGroupResponse> ClusterState::DescribeRendezvous(const ReplicaContext& replica) const {
  MutexLock lock(&mutex_);
  const auto it = tables_.jobs.find(replica.job_uid);
  if (it == tables_.jobs.end() || !IsCurrent(*it->second, replica.group)) return GroupOver(replica.group);
  const JobEntry& job = *it->second;
  // A group that is being stopped will never be complete.
  if (job.record.status.phase() == v1::JOB_PHASE_STOPPING && !GroupComplete(job.replicas)) {
    return absl::AbortedError(
        absl::StrCat("group ", replica.group, " is being stopped: ", job.record.status.message()));
  }
  v1::JoinGroupResponse response = DescribeGroup(job.replicas, replica.group, replica.rank);
  if (response.has_formed()) {
    for (const std::string& type : GpuTypesOf(job)) response.mutable_formed()->add_gpu_types(type);
  }
  return response;
}

std::set<std::string> ClusterState::GpuTypesOf(const JobEntry& job) const {
  std::set<std::string> types;
  // On a node with GPUs, a program that has asked for none computes without.
  if (job.record.job->spec().template_().resources().gpus() == 0) return types;
  for (const auto& replica : job.replicas) {
    const auto node = tables_.nodes.find(replica->replica.node_id());
    if (node == tables_.nodes.end() || node->second->record.node.gpu_type().empty()) continue;
    types.insert(node->second->record.node.gpu_type());
  }
  return types;
}

absl::Status ClusterState::ObserveTraining(const ReplicaContext& replica) {
  MutexLock lock(&mutex_);
  const absl::Time now = Now();
  Transaction transaction(tables_, now);
  const JobEntry* entry = transaction.FindJob(replica.job_uid);
  if (entry == nullptr || !IsCurrent(*entry, replica.group)) return GroupOver(replica.group);
  // The last words of a group that is being stopped say nothing about the next one.
  const bool stopping = entry->record.status.phase() == v1::JOB_PHASE_STOPPING;
  if (stopping || entry->record.rescaling_since == absl::InfinitePast()) return absl::OkStatus();
  jobs::Job job = ToJob(entry->record);
  jobs::EndRescale(now, &job);
  StoreJob(job, &transaction.EditJob(replica.job_uid)->record);
  return Commit(&transaction);
}

absl::Status ClusterState::ReportHints(const ReplicaContext& replica, const v1::Hints& hints) {
  if (const absl::Status status = ValidateHints(hints); !status.ok()) return status;
  MutexLock lock(&mutex_);
  new_hints_[replica.job_uid] = hints;
  return absl::OkStatus();
}

void ClusterState::Flush() {
  MutexLock lock(&mutex_);
  const absl::Time now = Now();
  if (now < next_flush_) return;
  next_flush_ = now + options_.flush_period;
  const std::map<std::string, v1::TrainingProgress> progress = parts_.sessions->TakeProgress();
  if (progress.empty() && new_hints_.empty()) return;
  Transaction transaction(tables_, now);
  for (const auto& [uid, value] : progress) StoreProgress(&transaction, uid, value);
  for (const auto& [uid, hints] : new_hints_) {
    const JobEntry* job = transaction.FindJob(uid);
    if (job == nullptr || MessageDifferencer::Equals(job->record.status.hints(), hints)) continue;
    *transaction.EditJob(uid)->record.status.mutable_hints() = hints;
    transaction.ShowToAllocator();
  }
  if (!transaction.empty() && !Commit(&transaction).ok()) {
    parts_.sessions->ReturnProgress(progress);
    return;
  }
  new_hints_.clear();
}

void ClusterState::StoreProgress(Transaction* transaction, const std::string& uid,
                                 const v1::TrainingProgress& progress) {
  const JobEntry* before = transaction->FindJob(uid);
  if (before == nullptr || MessageDifferencer::Equals(before->record.status.progress(), progress)) return;
  v1::JobStatus* status = &transaction->EditJob(uid)->record.status;
  *status->mutable_progress() = progress;
  status->clear_estimated_completion_time();
  if (progress.fraction() < 0 || IsTerminal(status->phase())) return;
  // The pace belongs to the replica set: a re-scale begins a new one.
  Pace& pace = paces_[uid];
  if (pace.group != status->group() || progress.fraction() < pace.fraction) {
    pace = {status->group(), transaction->now(), progress.fraction()};
    return;
  }
  const double gained = progress.fraction() - pace.fraction;
  if (gained <= 0) return;
  const double rest = (1 - progress.fraction()) / gained;
  // A guess beyond a century helps nobody, and would leave the range of timestamps.
  const absl::Duration left = (transaction->now() - pace.since) * std::min(rest, 1e9);
  if (left > absl::Hours(24 * 36525)) return;
  *status->mutable_estimated_completion_time() = ToProto(transaction->now() + left);
}

}  // namespace adaptdl::supervisor
