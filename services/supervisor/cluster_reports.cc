// What replicas and nodes report is bounded, however often they do it: a few reports at once and then one
// every few seconds are stored and told, by job, and what comes in between is counted and told with the next.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/supervisor/cluster_state.h"
#include "services/supervisor/convert.h"
#include "services/supervisor/validation.h"

namespace adaptdl::supervisor {
namespace {

// Kinds of events of one job that are held back at a time; others are left out.
constexpr size_t kMostHeld = 64;

}  // namespace

void ClusterState::Report(Transaction* transaction, const std::string& uid, const jobs::Event& event) {
  if (reports_.Take(uid, transaction->now())) {
    transaction->AddRepeatedEvent(uid, event, Repetition());
  } else {
    HoldBack(uid, event, transaction->now());
  }
}

void ClusterState::HoldBack(const std::string& uid, const jobs::Event& event, absl::Time now) {
  auto& events = held_reports_[uid].events;
  const EventKey key = Transaction::KeyOf(event, 0);
  if (events.size() >= kMostHeld && events.count(key) == 0) return;
  auto& [latest, repetition] = events[key];
  latest = event;
  if (repetition.count++ == 0) repetition.first = now;
}

absl::Status ClusterState::ObserveCheckpoint(const ReplicaContext& replica,
                                             const v1::CheckpointResult& result) {
  if (const absl::Status status = ValidateCheckpointResult(result); !status.ok()) return status;
  MutexLock lock(&mutex_);
  const std::string& uid = replica.job_uid;
  Transaction transaction(tables_, Now());
  const JobEntry* entry = transaction.FindJob(uid);
  if (entry == nullptr) {
    return absl::AbortedError(absl::StrCat("group ", replica.group, " is over; this replica must stop"));
  }
  const auto held = held_reports_.find(uid);
  const bool waits = held != held_reports_.end() && held->second.checkpoint_error.has_value();
  const std::string before = waits ? *held->second.checkpoint_error : entry->record.status.checkpoint_error();
  if (before == result.error()) return absl::OkStatus();
  const bool fails = !result.error().empty();
  const std::string text =
      fails ? absl::StrCat("no checkpoint was written after step ", result.step(),
                           ", the one before stays and training goes on: ", result.error())
            : absl::StrCat("checkpoints can be written again, the first after step ", result.step());
  const jobs::Event event = {fails, fails ? "CheckpointFailed" : "CheckpointWritten", text, "",
                             replica.replica_id};
  // Only the first failure and its end are news: what is wrong may be told in other words each time.
  const bool news = before.empty() != result.error().empty();
  if (waits || !reports_.Take(uid, transaction.now())) {
    if (news) HoldBack(uid, event, transaction.now());
    held_reports_[uid].checkpoint_error = result.error();
    return absl::OkStatus();
  }
  transaction.EditJobInMemory(uid)->record.status.set_checkpoint_error(result.error());
  if (news) transaction.AddRepeatedEvent(uid, event, Repetition());
  return Commit(&transaction);
}

void ClusterState::TellHeldReports() {
  MutexLock lock(&mutex_);
  const Moment now = Now();
  Transaction transaction(tables_, now);
  std::vector<std::string> told;
  for (auto it = held_reports_.begin(); it != held_reports_.end();) {
    const auto& [uid, held] = *it;
    if (tables_.jobs.count(uid) == 0) {
      it = held_reports_.erase(it);
      continue;
    }
    if (reports_.Take(uid, now)) {
      if (held.checkpoint_error.has_value()) {
        transaction.EditJob(uid)->record.status.set_checkpoint_error(*held.checkpoint_error);
      }
      for (const auto& [key, event] : held.events) {
        // The last of them is the event, and those before it are counted.
        Repetition before = event.second;
        --before.count;
        transaction.AddRepeatedEvent(uid, event.first, before);
      }
      told.push_back(uid);
    }
    ++it;
  }
  // If it can't be stored, it is held back longer.
  if (transaction.empty() || !Commit(&transaction).ok()) return;
  for (const std::string& uid : told) held_reports_.erase(uid);
}

}  // namespace adaptdl::supervisor
