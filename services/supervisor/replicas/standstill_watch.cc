#include "services/supervisor/replicas/standstill_watch.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "libs/jobs/descriptions.h"
#include "services/supervisor/state/job_status.h"
#include "services/supervisor/store/convert.h"

namespace adaptdl::supervisor {
namespace {

// How often it is looked.
constexpr absl::Duration kLookPeriod = absl::Seconds(5);
// Of so many replicas it is told what is the matter with them.
constexpr size_t kMostNamed = 3;

// Only one that has taken a step can be missed: others may train in ways that are not told.
int64_t StepsOf(const JobEntry& job) {
  return job.record.progress.has_value() ? job.record.progress->optimizer_steps() : 0;
}

absl::Duration UsualStep(const JobEntry& job) {
  const v1::StepTimes& times = job.record.progress->step_times();
  const double seconds = times.compute() + times.sync() + times.data();
  return seconds > 0 ? absl::Seconds(seconds) : absl::ZeroDuration();
}

struct Suspect {
  v1::Replica replica;
  std::string what;
};

std::string NamesOf(const std::vector<Suspect>& suspects) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < std::min(suspects.size(), kMostNamed); ++i) {
    const v1::Replica& replica = suspects[i].replica;
    parts.push_back(
        absl::StrCat("replica ", replica.rank(), " on node ", replica.node_id(), " ", suspects[i].what));
  }
  if (suspects.size() > kMostNamed) parts.push_back(absl::StrCat(suspects.size() - kMostNamed, " more"));
  return absl::StrJoin(parts, ", ");
}

}  // namespace

bool StandstillWatch::Observe(const JobEntry& job, absl::Time now, Watched* watched) const {
  const bool runs = TakesSteps(job.record.state.phase);
  const bool same = watched->group == job.record.state.group && watched->steps == StepsOf(job);
  if (runs && same) {
    const absl::Duration patience =
        std::max({kShortest, kUsualSteps * UsualStep(job), kLongestPauses * watched->longest_pause});
    return watched->told_at == 0 && now - watched->since >= patience;
  }
  // What a re-scale takes is no pause of the program's.
  if (runs && watched->group == job.record.state.group) {
    watched->longest_pause = std::max(watched->longest_pause, now - watched->since);
  }
  watched->group = job.record.state.group;
  watched->steps = StepsOf(job);
  watched->since = now;
  return watched->told_at != 0;
}

jobs::Event StandstillWatch::Describe(const JobEntry& job, absl::Duration standstill, absl::Time now) const {
  std::vector<Suspect> silent;
  std::vector<Suspect> idle;
  std::vector<Suspect> busy;
  int waiting = 0;
  for (const auto& record : job.replicas) {
    const v1::Replica& replica = record->replica;
    if (replica.group() != job.record.state.group) continue;
    const Pulse pulse = pulses_->LastPulse(replica.replica_id());
    const absl::Duration nothing_done = ToDuration(pulse.activity.idle());
    // A supervisor that was restarted has heard nobody, and calls nobody silent before it has.
    if (pulse.heard != absl::InfinitePast() && now - pulse.heard > silence_) {
      silent.push_back({replica, absl::StrCat("is silent, its last heartbeat came ",
                                              jobs::Rounded(now - pulse.heard), " ago")});
    } else if (nothing_done >= standstill / 2) {
      idle.push_back({replica, absl::StrCat("has done nothing for ", jobs::Rounded(nothing_done))});
    } else if (ToDuration(pulse.activity.waiting()) >= standstill / 2) {
      ++waiting;
    } else {
      busy.push_back({replica, "is busy with something else, and the others wait for it"});
    }
  }
  // Somebody is waited for only where somebody waits.
  if (waiting == 0) busy.clear();
  const std::vector<Suspect>& suspects = !silent.empty() ? silent : !idle.empty() ? idle : busy;
  const absl::Duration usual = UsualStep(job);
  const std::string than = usual > absl::ZeroDuration()
                               ? absl::StrFormat(" (a usual one takes %.2g s)", absl::ToDoubleSeconds(usual))
                               : "";
  const std::string who = suspects.empty() ? "its replicas live, and do something else" : NamesOf(suspects);
  jobs::Event event = {
      true, std::string(kNoSteps),
      absl::StrCat("no step for ", jobs::Rounded(standstill), " after step ", StepsOf(job), than, ": ", who),
      "", ""};
  if (suspects.size() == 1) {
    event.node = suspects[0].replica.node_id();
    event.replica_id = suspects[0].replica.replica_id();
  }
  return event;
}

void StandstillWatch::Tell(Transaction* transaction, const std::string& uid, Watched* watched) const {
  const JobEntry* job = transaction->FindJob(uid);
  if (job == nullptr) return;
  const absl::Time now = transaction->now();
  if (watched->told_at == 0) {
    const jobs::Event event = Describe(*job, now - watched->since, now);
    transaction->EditJob(uid)->standstill = event.message;
    transaction->AddEvent(uid, event);
    watched->told_at = StepsOf(*job);
  } else {
    transaction->EditJob(uid)->standstill.clear();
    // What else it does instead is told by others.
    if (TakesSteps(job->record.state.phase) && StepsOf(*job) != watched->told_at) {
      transaction->AddEvent(
          uid, {false, "StepsAgain", absl::StrCat("takes steps again: ", StepsOf(*job)), "", ""});
    }
    watched->told_at = 0;
  }
}

void StandstillWatch::Step() {
  const absl::Time now = core_->Now();
  if (now < next_) return;
  next_ = now + kLookPeriod;
  std::map<std::string, Watched> watched;
  std::vector<std::string> news;
  core_->Read([&](const Tables& tables) {
    for (const auto& [sequence, uid] : tables.active) {
      const JobEntry& job = *tables.jobs.at(uid);
      if (StepsOf(job) == 0) continue;
      const auto known = watched_.find(uid);
      Watched& entry = watched[uid];
      entry =
          known != watched_.end() ? known->second : Watched{job.record.state.group, StepsOf(job), now, {}, 0};
      if (Observe(job, now, &entry)) news.push_back(uid);
    }
  });
  watched_ = std::move(watched);
  if (news.empty()) return;
  std::map<std::string, Watched> told = watched_;
  const absl::Status status = core_->Update([&](Transaction* transaction) {
    for (const std::string& uid : news) Tell(transaction, uid, &told[uid]);
    return absl::OkStatus();
  });
  // What can't be stored is told with the next look.
  if (status.ok()) watched_ = std::move(told);
}

}  // namespace adaptdl::supervisor
