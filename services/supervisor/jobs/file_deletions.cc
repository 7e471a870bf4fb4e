#include "services/supervisor/jobs/file_deletions.h"

#include <string>

namespace adaptdl::supervisor {
namespace {

// Deletions that a node is told at once: fewer than may wait for a worker. The others come later.
constexpr int kDeletionsAtOnce = 1000;
// How long until a node that has not confirmed a deletion is told again.
constexpr absl::Duration kTellAgain = absl::Minutes(10);

v1::DeleteJobFiles ToCommand(const FileDeletion& deletion) {
  v1::DeleteJobFiles files;
  files.set_namespace_(deletion.name_space);
  files.set_job(deletion.job);
  files.set_job_uid(deletion.job_uid);
  return files;
}

}  // namespace

void FileDeletions::Delete(Transaction* transaction, const v1::Job& job) const {
  for (const auto& [id, node] : transaction->base().nodes) {
    const FileDeletion deletion = {id, job.namespace_(), job.name(), job.uid()};
    const bool connected = launcher_->Connected(id);
    if (connected) transaction->EffectsOf(job.uid())->deletions.emplace_back(id, ToCommand(deletion));
    if (!connected || node->lease->confirms_deletions()) transaction->AddDeletion(deletion);
  }
}

void FileDeletions::Tell(Transaction* transaction, const std::string& node_id) const {
  const Tables& tables = transaction->base();
  const auto deletions = tables.deletions.find(node_id);
  if (deletions == tables.deletions.end()) return;
  const bool confirms = tables.nodes.at(node_id)->lease->confirms_deletions();
  int told = 0;
  for (const auto& [uid, deletion] : deletions->second) {
    if (++told > kDeletionsAtOnce) return;
    transaction->EffectsOf(uid)->deletions.emplace_back(node_id, ToCommand(deletion));
    // A worker of an older version: there is no more to hear of it.
    if (!confirms) transaction->FinishDeletion(node_id, uid);
  }
}

absl::Status FileDeletions::Finish(const std::string& node_id, const std::string& job_uid) {
  return core_->Update([&](Transaction* transaction) {
    const auto& deletions = transaction->base().deletions;
    const auto node = deletions.find(node_id);
    if (node != deletions.end() && node->second.count(job_uid) > 0) {
      transaction->FinishDeletion(node_id, job_uid);
    }
    return absl::OkStatus();
  });
}

void FileDeletions::Step() {
  const absl::Time now = core_->Now();
  if (now < next_) return;
  next_ = now + kTellAgain;
  const auto tell = [&](Transaction* transaction) {
    for (const auto& [id, deletions] : transaction->base().deletions) {
      if (transaction->base().nodes.count(id) == 0) {
        transaction->FinishDeletions(id);
      } else if (launcher_->Connected(id)) {
        Tell(transaction, id);
      }
    }
    return absl::OkStatus();
  };
  // Without it, later.
  core_->Update(tell).IgnoreError();
}

}  // namespace adaptdl::supervisor
