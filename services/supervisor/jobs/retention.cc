#include "services/supervisor/jobs/retention.h"

#include <string>
#include <utility>
#include <vector>

#include "libs/service/log.h"
#include "services/supervisor/store/convert.h"

namespace adaptdl::supervisor {
namespace {

constexpr absl::Duration kPrunePeriod = absl::Minutes(10);
constexpr absl::Duration kExpiryPeriod = absl::Minutes(1);
// Jobs that expire at once, so that a long list does not hold up the rest.
constexpr size_t kExpiredAtOnce = 100;
// Groups that a job has had since its replicas were pruned last, for it to be worth a look; and jobs that are
// looked at in one step.
constexpr int64_t kGroupsBetween = 10;
constexpr size_t kJobsAtOnce = 200;

}  // namespace

void Retention::Step() {
  const Moment now = core_->Now();
  if (now >= next_prune_) PruneRecords(now);
  if (options_.jobs != absl::InfiniteDuration() && now >= next_expiry_) ExpireJobs(now);
}

std::vector<std::pair<std::string, int64_t>> Retention::FindGrown(bool* more) {
  std::vector<std::pair<std::string, int64_t>> grown;
  *more = false;
  core_->Read([&](const Tables& tables) {
    std::erase_if(pruned_groups_, [&](const auto& entry) { return tables.jobs.count(entry.first) == 0; });
    for (const auto& [uid, entry] : tables.jobs) {
      const int64_t group = entry->record.state.group;
      if (group < pruned_groups_[uid] + kGroupsBetween) continue;
      *more = grown.size() == kJobsAtOnce;
      if (*more) return;
      grown.emplace_back(uid, group);
    }
  });
  return grown;
}

bool Retention::PruneReplicas() {
  bool more = false;
  for (const auto& [uid, group] : FindGrown(&more)) {
    const absl::Status status = core_->store()->PruneReplicas(uid, options_.replicas);
    if (!status.ok()) {
      log::Warning("ended replicas could not be forgotten", {{"error", status.ToString()}});
      return true;
    }
    pruned_groups_[uid] = group;
  }
  return !more;
}

void Retention::PruneRecords(const Moment& now) {
  next_prune_ = now + kPrunePeriod;
  const absl::Status status = core_->store()->PruneRequests(now.wall - options_.requests);
  if (!status.ok()) log::Warning("old request ids could not be removed", {{"error", status.ToString()}});
  if (!PruneReplicas()) next_prune_ = now;
}

void Retention::ExpireJobs(const Moment& now) {
  const absl::Time oldest = now.wall - options_.jobs;
  size_t expired = 0;
  const auto expire = [&](Transaction* transaction) {
    for (const auto& [uid, entry] : transaction->base().jobs) {
      const JobRecord& record = entry->record;
      if (!jobs::IsTerminal(record.state.phase) || record.times.completed >= oldest) continue;
      if (++expired > kExpiredAtOnce) break;
      if (options_.expire_files) deletions_->Delete(transaction, *record.job);
      transaction->DeleteJob(uid);
    }
    return absl::OkStatus();
  };
  if (!core_->Update(expire).ok()) return;  // Again with the next step.
  if (expired > kExpiredAtOnce) return;
  next_expiry_ = now + kExpiryPeriod;
  const absl::Status status = core_->store()->PruneEvents(oldest);
  if (!status.ok()) log::Warning("old events could not be removed", {{"error", status.ToString()}});
}

}  // namespace adaptdl::supervisor
