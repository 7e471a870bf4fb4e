#include "libs/scheduling/goodput/explanation.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "libs/scheduling/explain.h"

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
  if (Replicas(job) > 1 && speedup > 0) {
    absl::StrAppend(&size, absl::StrFormat(", %.1f times as fast as one", speedup));
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
                        " at once on one kind of node, and the cluster holds ", possible);
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
  if (steps.up == nullptr) return "more replicas would not make it faster";
  const int pool = PoolOf(job);
  const int more = steps.up_option->amount - model_.UnitsOf(job, pool, Replicas(job));
  if (more <= left_[pool]) return "more replicas gain less than re-scaling costs";
  return "there is no room for more; other jobs need it or gain more from it";
}

std::vector<std::string> Explainer::Explanation(int job) const {
  std::vector<std::string> sentences;
  const JobInfo& info = model_.view().jobs[job];
  if (placements_[job].empty() || model_.job(job).pinned) return sentences;
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
    sentences.push_back(absl::StrFormat("It stays as it is; a change would cost about %s without progress.",
                                        Minutes(info.rescale_seconds)));
  }
  if (info.remaining_seconds.has_value()) {
    sentences.push_back(absl::StrCat("About ", Minutes(*info.remaining_seconds / speedup),
                                     " of work are left at this speed."));
  } else if (info.done_seconds.has_value()) {
    sentences.push_back("How much work is left is not known; it is judged by the work that it has done.");
  } else {
    sentences.push_back("It has not measured itself yet: such jobs are started before others.");
  }
  return sentences;
}

}  // namespace adaptdl::scheduling
