#include "libs/scheduling/goodput/valuation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "absl/time/time.h"

namespace adaptdl::scheduling {
namespace {

// What is left of a speed when a change uses up the whole horizon: a waiting job must still be worth
// starting.
constexpr double kLeastPart = 1e-3;

double GuessLength(const JobInfo& job, const ValuationOptions& options) {
  // One that had the time to measure itself, and has not, is judged by that time.
  const double done = job.done_seconds.value_or(job.run_seconds);
  if (done <= options.first_step) return options.first_step;
  const double steps = std::ceil(std::log(done / options.first_step) / std::log(options.step_ratio));
  return options.first_step * std::pow(options.step_ratio, steps);
}

// The largest speed-up that the job could get from twice its fair share of the cluster.
double FreeSpeedup(const ClusterModel& model, int job) {
  double full = 1;
  const int share = static_cast<int>(std::ceil(2 * model.FairShare(job)));
  for (int pool = 0; pool < static_cast<int>(model.pools().size()); ++pool) {
    const int per_node = model.job(job).per_node[pool];
    const int nodes = static_cast<int>(model.pools()[pool].nodes.size());
    if (per_node == 0) continue;
    const int most = std::min({per_node * nodes, share, model.Table(job, pool).max_replicas()});
    if (most < 1) continue;
    full = std::max({full, model.Speedup(job, pool, 1, std::min(per_node, most)),
                     model.Speedup(job, pool, model.NodesFor(job, pool, most), most)});
  }
  return full;
}

// The speed of its least size where that is slowest. 1: it runs nowhere.
double LeastSpeed(const ClusterModel& model, int job) {
  const int replicas = std::max(1, model.view().jobs[job].min_replicas);
  double least = std::numeric_limits<double>::infinity();
  for (int pool = 0; pool < static_cast<int>(model.pools().size()); ++pool) {
    if (model.job(job).per_node[pool] == 0) continue;
    const double speed = model.Speedup(job, pool, model.NodesFor(job, pool, replicas), replicas);
    if (speed > 0) least = std::min(least, speed);
  }
  return std::isfinite(least) ? least : 1;
}

// The part of its life that a job has run after one more change, if each so far has cost as much as it would.
double Calmness(const ClusterView& view, const JobInfo& job) {
  const double age = absl::ToDoubleSeconds(view.now - job.created);
  const double cost = job.rescale_seconds;
  if (job.allocation.empty() || age < cost || age + cost <= 0) return 1;
  return std::max(age - job.restarts * cost, 0.0) / (age + cost);
}

// More than 1 for a job that has waited too long.
double Urgency(const ClusterModel& model, int job, const ValuationOptions& options) {
  const JobInfo& info = model.view().jobs[job];
  const double age = absl::ToDoubleSeconds(model.view().now - info.created);
  if (age <= options.patience) return 1;
  const double share = std::min<double>(model.FairShare(job), info.max_replicas);
  const double had = info.attained_service / (age * std::max(share, 1e-9));
  if (had >= options.least_share) return 1;
  return 1 + (1 - had / options.least_share) * (age / options.patience - 1);
}

double NamespaceWeight(const ClusterView& view, const JobInfo& job) {
  const auto found = view.namespaces.find(job.name_space);
  return found == view.namespaces.end() ? 1 : found->second.weight;
}

// (i^c - (i-1)^c)^(1-q)
double RankPrice(double rank, double concavity) {
  const double c = 1 / (1 - concavity);
  return std::pow(std::pow(rank, c) - std::pow(rank - 1, c), 1 - concavity);
}

}  // namespace

Valuation::Valuation(const ClusterModel& model, const ValuationOptions& options)
    : exponent_(options.speed_exponent) {
  const ClusterView& view = model.view();
  terms_.resize(model.job_count());
  for (int job = 0; job < model.job_count(); ++job) {
    const JobInfo& info = view.jobs[job];
    const bool unmeasured = model.job(job).queue_role != QueueRole::kCompetes;
    terms_[job].length =
        unmeasured
            ? options.unmeasured_length
            : info.remaining_seconds.value_or(info.expected_seconds.value_or(GuessLength(info, options)));
    terms_[job].change_seconds = info.rescale_seconds + info.unsaved_seconds;
    terms_[job].least_speed = LeastSpeed(model, job);
    terms_[job].calmness = Calmness(view, info);
    terms_[job].staying = 1 + info.unsaved_seconds / options.horizon;
    terms_[job].horizon = std::max(options.horizon, options.horizon_in_costs * terms_[job].change_seconds);
    const double next_change = 10 * info.rescale_seconds / options.horizon;
    terms_[job].opening = 1 + options.exploration * std::max(0.0, 1 - next_change);
  }
  // From the longest to the shortest.
  std::vector<int> order(terms_.size());
  std::iota(order.begin(), order.end(), 0);
  const auto unmeasured = [&](int job) { return model.job(job).queue_role != QueueRole::kCompetes; };
  const auto burst = [&](int job) {
    return std::floor(absl::ToDoubleSeconds(view.jobs[job].created - absl::UnixEpoch()) / options.burst);
  };
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    if (unmeasured(a) != unmeasured(b)) return unmeasured(b);
    if (unmeasured(a)) return a > b;
    if (terms_[a].length != terms_[b].length) return terms_[a].length > terms_[b].length;
    return burst(a) != burst(b) ? burst(a) < burst(b) : a > b;
  });
  for (size_t i = 0; i < order.size(); ++i) {
    const int job = order[i];
    const JobInfo& info = view.jobs[job];
    const bool known = info.remaining_seconds.has_value();
    const double rank_price =
        RankPrice(static_cast<double>(i + 1), known ? options.concavity : options.guessed_concavity);
    const double eta = known ? options.scaling_exponent : options.guessed_scaling_exponent;
    terms_[job].price = rank_price * std::pow(FreeSpeedup(model, job), -eta) * info.weight *
                        NamespaceWeight(view, info) * Urgency(model, job, options);
    if (unmeasured(job)) terms_[job].price *= options.unmeasured_price;
  }
}

double Valuation::Value(int job, double speedup, bool changes, bool opens) const {
  if (speedup <= 0) return 0;
  const Terms& terms = terms_[job];
  double part = opens ? terms.opening : 1;
  if (changes) {
    const double horizon = std::min(terms.length / speedup + terms.change_seconds, terms.horizon);
    part *= std::max(kLeastPart, std::min(1 - terms.change_seconds / horizon, terms.calmness));
  } else {
    part *= terms.staying;
  }
  return terms.price * std::pow(speedup / terms.least_speed * part, exponent_);
}

}  // namespace adaptdl::scheduling
