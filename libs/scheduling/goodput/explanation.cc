#include "libs/scheduling/goodput/explanation.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "libs/scheduling/unschedulable.h"

namespace adaptdl::scheduling {
namespace {

std::string Count(int count, const std::string& what) {
  return absl::StrCat(count, " ", what, count == 1 ? "" : "s");
}

std::string Times(double factor) { return absl::StrFormat("%.2f times as fast", factor); }

std::string Minutes(double seconds) {
  if (seconds < 1) return "a second";
  if (seconds < 90) return absl::StrFormat("%.0f s", seconds);
  if (seconds < 5400) return absl::StrFormat("%.0f min", seconds / 60);
  return absl::StrFormat("%.1f h", seconds / 3600);
}

}  // namespace

Explainer::Explainer(const ClusterModel& model, const Menu& menu, const ChoiceResult& choice,
                     const std::vector<Placement>& placements)
    : model_(model), menu_(menu), choice_(choice), placements_(placements) {
  for (const Pool& pool : model.pools()) left_.push_back(pool.capacity);
  for (int job = 0; job < model.job_count(); ++job) {
    if (model.job(job).pinned || placements[job].empty()) continue;
    left_[PoolOf(job)] -= model.UnitsOf(job, PoolOf(job), Replicas(job));
    if (menu.turn[job] == Turn::kKeepsPlace) keepers_.push_back(job);
  }
  before_.resize(model.job_count(), 0);
  int waiting = 0;
  for (const int job : menu.line) {
    before_[job] = waiting;
    if (placements[job].empty()) ++waiting;
  }
}

Explainer::Steps Explainer::StepsOf(int job) const {
  Steps steps;
  const int pool = PoolOf(job);
  const int held = Replicas(job);
  for (size_t i = 0; i < menu_.sizes[job].size(); ++i) {
    const Size& size = menu_.sizes[job][i];
    if (size.pool != pool) continue;
    if (size.replicas > held && (steps.up == nullptr || size.replicas < steps.up->replicas)) {
      steps.up = &size;
      steps.up_option = &menu_.problem.groups[job][i];
    }
    if (size.replicas < held && (steps.down == nullptr || size.replicas > steps.down->replicas)) {
      steps.down = &size;
    }
  }
  return steps;
}

std::string Explainer::Reason(int job) const {
  const JobInfo& info = model_.view().jobs[job];
  const Placement& placement = placements_[job];
  if (placement.empty()) return WhyWaiting(job);
  std::string size = absl::StrCat(Count(Replicas(job), "replica"), " on ",
                                  Count(static_cast<int>(placement.size()), "node"));
  const double speedup = model_.SpeedupAt(job, placements_[job]);
  if (Replicas(job) > 1 && speedup > 0 && info.measured_replicas > 0) {
    absl::StrAppend(&size, Replicas(job) <= info.measured_replicas ? ", " : ", expected to be ",
                    absl::StrFormat("%.1f times as fast as one", speedup));
  }
  if (model_.job(job).pinned) {
    return absl::StrCat(size, ": the job is not preemptible and stays as it was started");
  }
  if (Replicas(job) >= info.max_replicas) {
    return absl::StrCat(
        size, ": ",
        info.max_replicas_reason.empty() ? "the most that it may have" : info.max_replicas_reason);
  }
  return absl::StrCat(size, ": ", WhyNoMore(job));
}

std::string Explainer::WhyWaiting(int job) const {
  std::string impossible = WhyUnschedulable(model_.view().jobs[job], model_.view());
  if (!impossible.empty()) return impossible;
  if (model_.pools().empty()) return "waits for a node: the cluster has none that takes replicas";
  const int needed = std::max(model_.view().jobs[job].min_replicas, 1);
  int possible = 0;
  for (size_t p = 0; p < model_.pools().size(); ++p) {
    possible =
        std::max(possible, model_.job(job).per_node[p] * static_cast<int>(model_.pools()[p].nodes.size()));
  }
  if (possible < needed) {
    return absl::StrCat("waits: needs ", Count(needed, "replica"),
                        " at once on one kind of node, and the cluster holds ", possible,
                        "; fewer minReplicas or more nodes help");
  }
  if (menu_.turn[job] == Turn::kMustWait) {
    return absl::StrCat(
        "waits for room for ", Count(needed, "replica"), " of ", Describe(model_.view().jobs[job].request),
        ": jobs that have not measured themselves start in their turn, and take no place from one "
        "that has not done so either");
  }
  if (menu_.sizes[job].empty()) {
    return "waits: no size that it may have fits into the cluster and its namespace's quota";
  }
  return absl::StrCat(
      "waits for room for ", Count(needed, "replica"), " of ", Describe(model_.view().jobs[job].request),
      ": the nodes are taken by jobs of which more is gained for now, or which can't be moved");
}

std::string Explainer::WhyNoMore(int job) const {
  const Steps steps = StepsOf(job);
  if (steps.up == nullptr || steps.up->speedup <= model_.SpeedupAt(job, placements_[job])) {
    return "more replicas would not make it faster";
  }
  const int pool = PoolOf(job);
  const int more = steps.up_option->amount - model_.UnitsOf(job, pool, Replicas(job));
  if (more <= left_[pool]) return "more replicas gain less than re-scaling costs";
  return "there is no room for more; other jobs need it or gain more from it";
}

std::string Explainer::Keepers(int job) const {
  const std::vector<JobInfo>& jobs = model_.view().jobs;
  int plain = 0;
  int measuring = 0;
  double longest = 0;
  for (const int other : keepers_) {
    if (jobs[other].priority < jobs[job].priority) continue;
    if (model_.job(job).per_node[PoolOf(other)] == 0) continue;
    if (!jobs[other].elastic) {
      ++plain;
    } else {
      ++measuring;
      longest = std::max(longest, MeasuringSeconds(jobs[other]) - jobs[other].run_seconds);
    }
  }
  std::string text;
  if (plain > 0) {
    absl::StrAppend(&text, Count(plain, "job"),
                    plain == 1 ? " keeps its place until the end, as a plain program"
                               : " keep their places until the end, as plain programs",
                    ", whose work would be lost");
  }
  if (measuring > 0) {
    absl::StrAppend(&text, text.empty() ? "" : "; ", Count(measuring, "job"),
                    measuring == 1 ? " keeps its place" : " keep their places",
                    " until measured, which may take ", Minutes(longest), " more");
  }
  return text.empty() ? text : absl::StrCat(text, ".");
}

std::vector<std::string> Explainer::WhileWaiting(int job) const {
  std::vector<std::string> sentences;
  // It can't be here at all.
  if (menu_.sizes[job].empty() && menu_.turn[job] == Turn::kCompetes) return sentences;
  if (model_.job(job).queue_role == QueueRole::kCompetes) {
    std::string keepers = Keepers(job);
    if (keepers.empty()) return sentences;
    sentences.push_back(std::move(keepers));
    sentences.emplace_back(
        "Jobs that came later and have not measured themselves leave half of the room, or what is needed at "
        "least, to "
        "jobs that have.");
    return sentences;
  }
  const int before = before_[job];
  sentences.push_back(before == 0
                          ? std::string("It is the next to start of those that have not measured themselves.")
                          : absl::StrCat(Count(before, "job"), before == 1 ? " is" : " are",
                                         " to start before it, in the order of submission."));
  std::string keepers = Keepers(job);
  if (!keepers.empty()) sentences.push_back(std::move(keepers));
  if (before == 0 && menu_.turn[job] == Turn::kMustWait) {
    sentences.emplace_back(
        "It leaves half of the room, or what they need at least, to jobs that came earlier and have measured "
        "themselves: it starts when one of them ends, or one of those that keep their places.");
  }
  return sentences;
}

std::string Explainer::HowItIsValued(int job) const {
  const JobInfo& info = model_.view().jobs[job];
  if (info.remaining_seconds.has_value()) {
    return absl::StrCat(
        "About ", Minutes(*info.remaining_seconds / model_.SpeedupAt(job, placements_[job])),
        " of training steps are left, by what its model expects of this size (the ETA goes by "
        "its pace so far).");
  }
  if (model_.job(job).queue_role == QueueRole::kCompetes) {
    if (info.expected_seconds.has_value()) {
      return absl::StrCat("How much work is left is not known; by what jobs of its kind took it counts as ",
                          Minutes(*info.expected_seconds / model_.SpeedupAt(job, placements_[job])),
                          " at this speed.");
    }
    return info.done_seconds.has_value()
               ? "How much work is left is not known; it is judged by the work that it has done."
               : "It has not measured itself in the time that it had for that; it is judged by the time that "
                 "it ran.";
  }
  if (menu_.turn[job] != Turn::kKeepsPlace) {
    return "It has not measured itself yet: such jobs are started before others.";
  }
  if (info.elastic) {
    return absl::StrCat("It has not measured itself yet, and keeps its place for at most ",
                        Minutes(MeasuringSeconds(info) - info.run_seconds), " until it has.");
  }
  return absl::StrCat(
      "It has not measured itself yet, and is taken for a plain program until it has: it keeps its place, "
      "except for a job of a higher priority, a quota or a node that drains; ",
      Minutes(info.unsaved_seconds), " of work would be lost.");
}

std::vector<std::string> Explainer::Explanation(int job) const {
  std::vector<std::string> sentences;
  const JobInfo& info = model_.view().jobs[job];
  if (model_.job(job).pinned) return sentences;
  if (placements_[job].empty()) return WhileWaiting(job);
  const double speedup = model_.SpeedupAt(job, placements_[job]);
  const int held = Replicas(job);
  if (speedup <= 0) return sentences;
  const Steps steps = StepsOf(job);
  if (steps.up != nullptr) {
    sentences.push_back(absl::StrCat("With ", Count(steps.up->replicas, "replica"), " it would be ",
                                     Times(steps.up->speedup / speedup), " as with ", held, "."));
  }
  if (steps.down != nullptr) {
    sentences.push_back(absl::StrCat("With ", Count(steps.down->replicas, "replica"), " it would be ",
                                     Times(steps.down->speedup / speedup), " as with ", held, "."));
  }
  const int pool = PoolOf(job);
  const double others = choice_.price[pool] * model_.UnitsOf(job, pool, held);
  const double own = choice_.chosen[job] < 0 ? 0 : menu_.problem.groups[job][choice_.chosen[job]].value;
  if (own > 0 && model_.job_count() > 1) {
    sentences.push_back(
        others <= 0
            ? std::string("What it holds would otherwise be idle.")
            : absl::StrFormat("To other jobs, what it holds would be worth %.0f %% of what it makes of it.",
                              std::min(100.0, 100 * others / own)));
  }
  const bool moves =
      placements_[job] != model_.job(job).present || static_cast<int>(info.allocation.size()) != held;
  if (!info.allocation.empty() && moves) {
    sentences.push_back(absl::StrFormat("The change from %s costs about %s without progress.",
                                        Count(static_cast<int>(info.allocation.size()), "replica"),
                                        Minutes(info.rescale_seconds)));
  } else if (!info.allocation.empty()) {
    sentences.push_back(
        absl::StrCat("A change would cost about ", Minutes(info.rescale_seconds), " without progress."));
  }
  if (info.unsaved_seconds > 0 && model_.job(job).queue_role == QueueRole::kCompetes) {
    sentences.push_back(absl::StrCat("Its checkpoints fail: if it were stopped now, ",
                                     Minutes(info.unsaved_seconds), " of work would be lost."));
  }
  sentences.push_back(HowItIsValued(job));
  return sentences;
}

}  // namespace adaptdl::scheduling
