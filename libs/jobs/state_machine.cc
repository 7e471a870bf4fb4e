#include "libs/jobs/state_machine.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/jobs/descriptions.h"
#include "libs/jobs/planning.h"
#include "libs/jobs/step.h"

namespace adaptdl::jobs {

Outcome Advance(const Job& job, const std::vector<Replica>& replicas, const Desired& desired, absl::Time now,
                const Policy& policy) {
  return Step(job, replicas, desired, now, policy).Run();
}

void EndRescale(absl::Time now, Job* job) {
  if (job->rescaling_since == absl::InfinitePast()) return;
  const absl::Duration took = std::max(absl::ZeroDuration(), now - job->rescaling_since);
  const bool first = job->rescale_duration == absl::ZeroDuration();
  job->rescale_duration = first ? took : (job->rescale_duration + took) / 2;
  job->rescaling_since = absl::InfinitePast();
}

bool Converged(const Job& before, const Outcome& outcome) {
  return outcome.job.phase == before.phase && outcome.job.plans == before.plans &&
         !outcome.launch.has_value() && outcome.stops.empty();
}

std::optional<Entered> EnterGroup(const Job& job, int64_t group) {
  const auto plan = std::find_if(job.plans.begin(), job.plans.end(),
                                 [&](const Plan& p) { return p.offered && p.group == group; });
  if (job.phase != Phase::kRescaling || plan == job.plans.end()) return std::nullopt;
  Entered entered;
  entered.job = job;
  Job& next = entered.job;
  next.group = group;
  next.allocation = NodesOf(plan->members);
  for (const PlanMember& member : plan->members) entered.members.push_back(member.replica_id);
  // A newer plan that was not offered yet is made again, for the new members.
  next.plans.erase(std::remove_if(next.plans.begin(), next.plans.end(),
                                  [&](const Plan& p) { return p.group <= group || !p.offered; }),
                   next.plans.end());
  if (next.plans.empty()) {
    next.phase = Phase::kRunning;
    next.reason.clear();
    next.message.clear();
  }
  ++next.rescales;
  // Newcomers are what was launched for a plan.
  next.newcomer_failures = plan->committed ? next.newcomer_failures : 0;
  next.rescale_note = absl::StrCat("group ", job.group, " → ", group, ", ", job.allocation.size(), " to ",
                                   Plural(static_cast<int>(next.allocation.size())));
  if (plan->ready_after > absl::ZeroDuration()) {
    absl::StrAppend(&next.rescale_note, "; ready after ", Rounded(plan->ready_after));
  }
  entered.events.push_back({false, "GroupStarted",
                            absl::StrCat("group ", group, " runs with ", DescribeNodes(next.allocation)), "",
                            ""});
  return entered;
}

bool ObserveRescale(const RescaleCost& times, Job* job, Event* event) {
  if (times.group != job->group || job->rescale_note.empty()) return false;
  const absl::Duration pause = times.rebuild + times.synchronize + times.first_step;
  *event = {false, "Rescaled",
            absl::StrCat(job->rescale_note, ", agreed ", Rounded(times.agree), ", pause ", Rounded(pause),
                         " (rebuild ", Rounded(times.rebuild), ", synchronise ", Rounded(times.synchronize),
                         ", first step ", Rounded(times.first_step), ")"),
            "", ""};
  const bool first = job->rescale_duration == absl::ZeroDuration();
  job->rescale_duration = first ? pause : (job->rescale_duration + pause) / 2;
  job->rescale_note.clear();
  return true;
}

}  // namespace adaptdl::jobs
