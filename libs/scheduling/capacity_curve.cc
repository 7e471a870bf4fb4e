#include "libs/scheduling/capacity_curve.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

namespace adaptdl::scheduling {
namespace {

// Parts of nodes are sums of fractions.
constexpr double kNodeRounding = 1e-9;

// A step of a job's speed-up, on the upper hull from nothing on.
struct Step {
  int job = 0;
  bool pinned = false;
  double nodes = 0;
  double use = 0;  // of a node
};

// The steps in falling order of use, as far as they are of any.
void AddSteps(int job, const CurveJob& sizes, std::vector<Step>* steps) {
  const size_t first = steps->size();
  double nodes = 0;
  double worth = 0;  // nodes in full use
  for (const CurveSize& size : sizes.sizes) {
    const double size_worth = size.nodes * size.speedup / (size.replicas * sizes.full_use);
    Step step{job, sizes.pinned, size.nodes - nodes, 0};
    step.use = (size_worth - worth) / step.nodes;
    if (step.use <= 0) continue;
    nodes = size.nodes;
    worth = size_worth;
    // Steps that gain more than the ones before make one with them.
    while (steps->size() > first && steps->back().use <= step.use) {
      const Step& before = steps->back();
      const double together = before.nodes + step.nodes;
      step.use = (before.use * before.nodes + step.use * step.nodes) / together;
      step.nodes = together;
      steps->pop_back();
    }
    steps->push_back(step);
  }
}

// Best utility by number of nodes.
class UtilityCurve {
 public:
  explicit UtilityCurve(const std::vector<CurveJob>& jobs) : skipped_(jobs.size(), 0) {
    for (size_t job = 0; job < jobs.size(); ++job) AddSteps(static_cast<int>(job), jobs[job], &steps_);
    // Stable: steps of one job stay in order.
    std::stable_sort(steps_.begin(), steps_.end(), [](const Step& a, const Step& b) {
      if (a.pinned != b.pinned) return a.pinned;
      return a.use > b.use;
    });
    for (const Step& step : steps_) {
      nodes_.push_back(nodes_.back() + step.nodes);
      worth_.push_back(worth_.back() + step.nodes * step.use);
    }
    smallest_.assign(steps_.size() + 1, HUGE_VAL);
    best_use_.assign(steps_.size() + 1, 0.0);
    for (size_t i = steps_.size(); i-- > 0;) {
      smallest_[i] = std::min(smallest_[i + 1], steps_[i].nodes);
      best_use_[i] = std::max(best_use_[i + 1], steps_[i].use);
    }
  }

  // Nodes in full use, at best. Calls must be made with growing `nodes`.
  double Worth(int nodes) {
    const size_t whole = StepsWithin(nodes);
    double worth = worth_[whole];
    double left = nodes - nodes_[whole];
    for (size_t i = whole; i < steps_.size() && left + kNodeRounding >= smallest_[i]; ++i) {
      const Step& step = steps_[i];
      if (skipped_[step.job] == nodes) continue;
      if (step.nodes > left + kNodeRounding) {
        skipped_[step.job] = nodes;  // its later steps can't be taken either
        continue;
      }
      left -= step.nodes;
      worth += step.nodes * step.use;
    }
    // A node can always be left idle.
    best_worth_ = std::max(best_worth_, worth);
    return best_worth_;
  }

  double MarginalUse(int nodes) const { return best_use_[StepsWithin(nodes - 1)]; }

 private:
  // Number of the first steps that fit together.
  size_t StepsWithin(int nodes) const {
    return std::upper_bound(nodes_.begin(), nodes_.end(), nodes + kNodeRounding) - nodes_.begin() - 1;
  }

  std::vector<Step> steps_;
  // Sums over the first 0, 1, ... steps.
  std::vector<double> nodes_ = {0};
  std::vector<double> worth_ = {0};
  // Over the steps from each on.
  std::vector<double> smallest_;
  std::vector<double> best_use_;
  // By job: the number of nodes for which a step of it was skipped.
  std::vector<int> skipped_;
  double best_worth_ = 0;
};

// Smallest makespan by number of nodes.
class MakespanCurve {
 public:
  explicit MakespanCurve(const std::vector<CurveJob>& jobs) : jobs_(jobs), size_(jobs.size(), 0) {
    for (size_t j = 0; j < jobs.size(); ++j) {
      const CurveJob& job = jobs[j];
      if (job.sizes.empty()) continue;
      const double nodes = job.sizes.front().nodes;
      used_ += nodes;
      if (!job.remaining_seconds.has_value()) {
        others_ += nodes;
        continue;
      }
      largest_ = std::max(largest_, nodes);
      work_ += Duration(j) * nodes;
      longest_.emplace(Duration(j), j);
    }
    start_ = used_;
  }

  // Whether any job says how much is left.
  bool has_jobs() const { return !longest_.empty(); }

  // Calls must be made with growing `nodes`. Absent: no job says how much is left, or they can't run.
  std::optional<double> Makespan(int nodes) {
    if (longest_.empty()) return std::nullopt;
    if (nodes + kNodeRounding < start_) {
      const double free = nodes - others_;
      if (free + kNodeRounding < largest_ || free <= 0) return std::nullopt;
      return std::max(longest_.top().first, work_ / free);
    }
    // Only a larger size of the job that ends last helps.
    while (GrowLongest(nodes)) {
    }
    return longest_.top().first;
  }

 private:
  double Duration(size_t job) const {
    return *jobs_[job].remaining_seconds / jobs_[job].sizes[size_[job]].speedup;
  }

  bool GrowLongest(int nodes) {
    const size_t job = longest_.top().second;
    const std::vector<CurveSize>& sizes = jobs_[job].sizes;
    size_t next = size_[job] + 1;
    while (next < sizes.size() && sizes[next].speedup <= sizes[size_[job]].speedup) ++next;
    if (next == sizes.size()) return false;
    const double more = sizes[next].nodes - sizes[size_[job]].nodes;
    if (used_ + more > nodes + kNodeRounding) return false;
    used_ += more;
    size_[job] = next;
    longest_.pop();
    longest_.emplace(Duration(job), job);
    return true;
  }

  const std::vector<CurveJob>& jobs_;
  std::vector<size_t> size_;  // by job: index of its size
  double used_ = 0;           // nodes
  double start_ = 0;          // nodes that all jobs take at their smallest
  double others_ = 0;         // of them: by jobs whose work is not known
  double largest_ = 0;        // nodes that one of the others takes at least
  double work_ = 0;           // node-seconds at the smallest sizes
  std::priority_queue<std::pair<double, size_t>> longest_;
};

}  // namespace

int StartNodes(const std::vector<CurveJob>& jobs) {
  double nodes = 0;
  for (const CurveJob& job : jobs) {
    if (!job.sizes.empty()) nodes += job.sizes.front().nodes;
  }
  return static_cast<int>(std::ceil(nodes - kNodeRounding));
}

std::vector<CapacityPoint> MakeCapacityCurve(const std::vector<CurveJob>& jobs, const CurveOptions& options) {
  UtilityCurve utility(jobs);
  MakespanCurve makespan(jobs);
  std::vector<CapacityPoint> curve;
  for (int nodes = 1; nodes <= options.most_nodes; ++nodes) {
    CapacityPoint point;
    point.nodes = options.other_nodes + nodes;
    point.utility = utility.Worth(nodes) / nodes;
    point.marginal_use = utility.MarginalUse(nodes);
    point.makespan_seconds = makespan.Makespan(nodes);
    const bool runs_here = point.makespan_seconds.has_value();
    if (options.other_makespan_seconds.has_value() && (runs_here || !makespan.has_jobs())) {
      point.makespan_seconds = std::max(point.makespan_seconds.value_or(0), *options.other_makespan_seconds);
    }
    curve.push_back(point);
  }
  return curve;
}

}  // namespace adaptdl::scheduling
