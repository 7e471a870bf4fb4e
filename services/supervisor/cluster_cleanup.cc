// What is over goes: the files of deleted jobs, jobs whose time is over, and what was kept of requests,
// replicas and nodes.

#include <string>
#include <utility>

#include "libs/service/log.h"
#include "services/supervisor/cluster_state.h"
#include "services/supervisor/convert.h"

namespace adaptdl::supervisor {
namespace {

// Deletions that a node is told at once: fewer than may wait for a worker. The others come later.
constexpr int kDeletionsAtOnce = 1000;
// How long until a node that has not confirmed a deletion is told again.
constexpr absl::Duration kTellAgain = absl::Minutes(10);
// Groups that a job has had since its replicas were pruned last, for it to be worth a look; and jobs that are
// looked at in one step.
constexpr int64_t kGroupsBetween = 10;
constexpr int kJobsAtOnce = 200;

v1::DeleteJobFiles ToCommand(const FileDeletion& deletion) {
  v1::DeleteJobFiles files;
  files.set_namespace_(deletion.name_space);
  files.set_job(deletion.job);
  files.set_job_uid(deletion.job_uid);
  return files;
}

}  // namespace

// Every node may hold logs of the job. Those that are away are told when they come back, and all until they
// say that nothing is left.
void ClusterState::DeleteFiles(Transaction* transaction, const v1::Job& job) const {
  for (const auto& [id, node] : tables_.nodes) {
    const FileDeletion deletion = {id, job.namespace_(), job.name(), job.uid()};
    const bool connected = parts_.launcher->Connected(id);
    if (connected) transaction->effects()->deletions.emplace_back(id, ToCommand(deletion));
    if (!connected || node->lease->confirms_deletions()) transaction->AddDeletion(deletion);
  }
}

void ClusterState::TellDeletions(Transaction* transaction, const std::string& node_id) const {
  const auto deletions = tables_.deletions.find(node_id);
  if (deletions == tables_.deletions.end()) return;
  const bool confirms = tables_.nodes.at(node_id)->lease->confirms_deletions();
  int told = 0;
  for (const auto& [uid, deletion] : deletions->second) {
    if (++told > kDeletionsAtOnce) return;
    transaction->effects()->deletions.emplace_back(node_id, ToCommand(deletion));
    // A worker of an older version: there is no more to hear of it.
    if (!confirms) transaction->FinishDeletion(node_id, uid);
  }
}

absl::Status ClusterState::FinishDeletion(const std::string& node_id, const std::string& job_uid) {
  MutexLock lock(&mutex_);
  const auto deletions = tables_.deletions.find(node_id);
  if (deletions == tables_.deletions.end() || deletions->second.count(job_uid) == 0) return absl::OkStatus();
  Transaction transaction(tables_, Now());
  transaction.FinishDeletion(node_id, job_uid);
  return Commit(&transaction);
}

void ClusterState::ForgetNode(Transaction* transaction, const std::string& id) {
  transaction->DeleteNode(id);
  transaction->FinishDeletions(id);
  free_ports_.erase(id);
  health_.erase(id);  // When it comes back, it is as new.
}

void ClusterState::TellDeletionsAgain() {
  MutexLock lock(&mutex_);
  const Moment now = Now();
  if (now < next_deletions_) return;
  next_deletions_ = now + kTellAgain;
  Transaction transaction(tables_, now);
  for (const auto& [id, deletions] : tables_.deletions) {
    if (tables_.nodes.count(id) == 0) {
      transaction.FinishDeletions(id);
    } else if (parts_.launcher->Connected(id)) {
      TellDeletions(&transaction, id);
    }
  }
  // Without it, later.
  if (!transaction.empty() || !transaction.effects()->deletions.empty()) Commit(&transaction).IgnoreError();
}

bool ClusterState::PruneReplicas() {
  int looked_at = 0;
  for (const auto& [uid, entry] : tables_.jobs) {
    const int64_t group = entry->record.status.group();
    if (group < pruned_groups_[uid] + kGroupsBetween) continue;
    if (++looked_at > kJobsAtOnce) return false;
    const absl::Status status = parts_.store->PruneReplicas(uid, options_.kept_replicas);
    if (!status.ok()) {
      log::Warning("ended replicas could not be forgotten", {{"error", status.ToString()}});
      return true;
    }
    pruned_groups_[uid] = group;
  }
  return true;
}

void ClusterState::PruneRequests() {
  MutexLock lock(&mutex_);
  const Moment now = Now();
  if (now < next_prune_) return;
  next_prune_ = now + absl::Minutes(10);
  submissions_.Sweep(now);
  std::erase_if(health_, [&](const auto& entry) { return tables_.nodes.count(entry.first) == 0; });
  std::erase_if(paces_, [&](const auto& entry) {
    const auto job = tables_.jobs.find(entry.first);
    return job == tables_.jobs.end() || IsTerminal(job->second->record.status.phase());
  });
  std::erase_if(told_of_reports_, [&](const std::string& uid) { return tables_.jobs.count(uid) == 0; });
  // A worker of a node that is gone says what it has when it comes back.
  std::erase_if(free_ports_, [&](const auto& entry) { return tables_.nodes.count(entry.first) == 0; });
  std::erase_if(pruned_groups_, [&](const auto& entry) { return tables_.jobs.count(entry.first) == 0; });
  const absl::Status status = parts_.store->PruneRequests(now.wall - options_.request_lifetime);
  if (!status.ok()) log::Warning("old request ids could not be removed", {{"error", status.ToString()}});
  if (!PruneReplicas()) next_prune_ = now;
}

void ClusterState::Expire() {
  constexpr size_t kJobsAtOnce = 100;  // so that a long list does not hold up the rest
  MutexLock lock(&mutex_);
  const Moment now = Now();
  if (options_.retention == absl::InfiniteDuration() || now < next_expiry_) return;
  const absl::Time oldest = now.wall - options_.retention;
  Transaction transaction(tables_, now);
  size_t expired = 0;
  for (const auto& [uid, entry] : tables_.jobs) {
    const v1::JobStatus& status = entry->record.status;
    if (!IsTerminal(status.phase()) || ToTime(status.completion_time()) >= oldest) continue;
    if (++expired > kJobsAtOnce) break;
    if (options_.expire_files) DeleteFiles(&transaction, *entry->record.job);
    transaction.DeleteJob(uid);
  }
  if (!transaction.empty() && !Commit(&transaction).ok()) return;  // Again with the next step.
  if (expired > kJobsAtOnce) return;
  next_expiry_ = now + absl::Minutes(1);
  const absl::Status status = parts_.store->PruneEvents(oldest);
  if (!status.ok()) log::Warning("old events could not be removed", {{"error", status.ToString()}});
}

}  // namespace adaptdl::supervisor
