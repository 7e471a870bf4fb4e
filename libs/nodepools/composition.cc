#include "libs/nodepools/composition.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace adaptdl::nodepools {
namespace {

using scheduling::JobDemand;
using scheduling::KindDemand;

// Sizes of a cluster that are compared, at most.
constexpr int kMostSamples = 48;
// More than anything costs, for an hour of a job's single replica.
constexpr double kPriceless = 1e9;
// Jobs with a deadline are to be so much faster than they need to be, where nodes are made for it; and nodes that are
// there are kept until they are so much faster.
constexpr double kDeadlineMargin = 1.05;
constexpr double kKeptDeadlineMargin = 1.25;

int RoundUp(double nodes) { return static_cast<int>(std::ceil(nodes - kRounding)); }

// Of nodes that last, so many are kept for what jobs need at least: they are taken whatever others cost, and leave the
// cheap ones to the rest.
Supply KeepLasting(Supply supply, double nodes) {
  if (supply.empty()) return supply;
  Tier kept{supply.front().price, 0};
  for (Tier& tier : supply) {
    if (!tier.lasting) continue;
    const double taken = std::min(tier.nodes, nodes - kept.nodes);
    tier.nodes -= taken;
    kept.nodes += taken;
  }
  supply.insert(supply.begin(), kept);
  std::erase_if(supply, [](const Tier& tier) { return tier.nodes <= 0; });
  return supply;
}

// Price of the cheapest nodes that last. 0: there are none.
double LastingPrice(const Supply& supply) {
  for (const Tier& tier : supply) {
    if (tier.lasting) return tier.price;
  }
  return 0;
}

int Sum(const std::vector<int>& nodes) { return std::accumulate(nodes.begin(), nodes.end(), 0); }

// What one replica brings on its own.
double FullUse(const KindDemand& demand) {
  return demand.sizes.front().speedup / demand.sizes.front().replicas;
}

// Sizes beyond which a replica adds less than `least_use` of that are left out.
JobDemand WithoutBadUse(JobDemand job, double least_use) {
  for (KindDemand& demand : job.kinds) {
    std::vector<scheduling::DemandSize>& sizes = demand.sizes;
    while (sizes.size() > 1) {
      const scheduling::DemandSize& last = sizes[sizes.size() - 1];
      const scheduling::DemandSize& before = sizes[sizes.size() - 2];
      const double use = (last.speedup - before.speedup) / (last.replicas - before.replicas);
      if (use >= least_use * FullUse(demand) * (1 - kRounding)) break;
      sizes.pop_back();
    }
  }
  return job;
}

// Speed-up at which the job keeps its deadline, `margin` times as fast as it must be. 0: it has none, or does not say
// how much is left.
double SpeedForDeadline(const JobDemand& job, const Target& target, absl::Time now, double margin) {
  absl::Time deadline = job.deadline.value_or(absl::InfiniteFuture());
  if (target.mode == TargetMode::kDeadline) deadline = std::min(deadline, target.deadline);
  if (deadline == absl::InfiniteFuture() || !job.remaining_seconds.has_value()) return 0;
  const double left = absl::ToDoubleSeconds(deadline - now);
  return left > 0 ? margin * *job.remaining_seconds / left : kPriceless;
}

// Part of what a node could bring to a job that is left when it has come. 1: the job says nothing, or waits.
double LeftAfterStart(const JobView& job, const std::vector<KindOffer>& offers) {
  if (job.present_kind < 0 || !(job.present_speedup > 0) || !job.demand.remaining_seconds.has_value())
    return 1;
  const double left = *job.demand.remaining_seconds / job.present_speedup;
  const double start = absl::ToDoubleSeconds(offers[job.present_kind].start_time);
  return left > start ? 1 - start / left : 0;
}

class Composer {
 public:
  Composer(const Target& target, const std::vector<JobView>& jobs, const std::vector<KindOffer>& offers,
           const CostFunction& cost, absl::Time now)
      : target_(target), jobs_(jobs), offers_(offers), cost_(cost), now_(now) {
    for (const KindOffer& offer : offers) {
      supplies_.push_back(offer.supply);
      here_.push_back(offer.nodes);
      if (target.floor_on_lasting) floor_prices_.push_back(LastingPrice(offer.supply));
    }
  }

  Composition Run() {
    CountWaiting();
    if (Sum(here_) > 0) result_.utility = Utility(here_);
    switch (target_.mode) {
      case TargetMode::kBand:
        FollowBand();
        break;
      case TargetMode::kBudget:
        KeepBudget();
        break;
      case TargetMode::kDeadline:
        Take(Buy(0, 0, kDeadlineMargin, false), Buy(0, 0, kKeptDeadlineMargin, false));
        result_.reason = absl::StrCat("what jobs need to end by ", absl::FormatTime(target_.deadline));
        break;
      case TargetMode::kCost:
        FollowPrice();
        break;
    }
    return std::move(result_);
  }

 private:
  struct Bought {
    std::vector<int> nodes;
    std::vector<double> floor;
  };

  void CountWaiting() {
    for (const JobView& job : jobs_) {
      result_.waiting_jobs += job.present_kind < 0;
      const bool placeable =
          std::any_of(job.demand.kinds.begin(), job.demand.kinds.end(), [&](const KindDemand& demand) {
            return !supplies_[demand.kind].empty() || offers_[demand.kind].nodes > 0;
          });
      result_.unplaced_jobs += !placeable;
    }
  }

  std::vector<Buyer> BuyersFrom(const std::vector<JobDemand>& demands, double worth, double deadline_margin,
                                bool for_new_nodes) const {
    std::vector<Buyer> buyers;
    buyers.reserve(demands.size());
    for (size_t j = 0; j < demands.size(); ++j) {
      Buyer buyer;
      buyer.demand = &demands[j];
      buyer.worth = worth * demands[j].weight * (for_new_nodes ? LeftAfterStart(jobs_[j], offers_) : 1);
      buyer.present_kind = jobs_[j].present_kind;
      buyer.least_speedup = SpeedForDeadline(demands[j], target_, now_, deadline_margin);
      buyers.push_back(buyer);
    }
    return buyers;
  }

  std::vector<JobDemand> Demands(double least_use) const {
    std::vector<JobDemand> demands;
    demands.reserve(jobs_.size());
    for (const JobView& job : jobs_) demands.push_back(WithoutBadUse(job.demand, least_use));
    return demands;
  }

  Bought Buy(double worth, double least_use, double deadline_margin, bool for_new_nodes) const {
    return BuyFor(Demands(least_use), worth, deadline_margin, for_new_nodes);
  }

  Bought BuyFor(const std::vector<JobDemand>& demands, double worth, double deadline_margin,
                bool for_new_nodes) const {
    const std::vector<Buyer> buyers = BuyersFrom(demands, worth, deadline_margin, for_new_nodes);
    const Bought bought = BuyOf(supplies_, buyers, demands);
    if (!target_.floor_on_lasting) return bought;
    std::vector<Supply> supplies;
    for (size_t k = 0; k < supplies_.size(); ++k)
      supplies.push_back(KeepLasting(supplies_[k], RoundUp(bought.floor[k])));
    return BuyOf(supplies, buyers, demands);
  }

  Bought BuyOf(const std::vector<Supply>& supplies, const std::vector<Buyer>& buyers,
               const std::vector<JobDemand>& demands) const {
    const Bargain bargain = Trade(buyers, supplies, floor_prices_);
    Bought bought{std::vector<int>(offers_.size(), 0), std::vector<double>(offers_.size(), 0)};
    for (size_t k = 0; k < offers_.size(); ++k) bought.nodes[k] = RoundUp(bargain.nodes[k]);
    for (size_t j = 0; j < demands.size(); ++j) {
      const int kind = bargain.purchases[j].kind;
      if (kind >= 0) bought.floor[kind] += NodesOf(*DemandOn(demands[j], kind), 0);
    }
    return bought;
  }

  void Take(Bought grow, const Bought& keep) {
    result_.keep = keep.nodes;
    for (size_t k = 0; k < offers_.size(); ++k) result_.keep[k] = std::max(result_.keep[k], grow.nodes[k]);
    result_.grow = std::move(grow.nodes);
    result_.floor = std::move(grow.floor);
  }

  // Part of so many nodes of each kind that jobs would put to full use.
  double Utility(const std::vector<int>& nodes) const {
    std::vector<Supply> supplies(nodes.size());
    for (size_t k = 0; k < nodes.size(); ++k) {
      if (nodes[k] > 0) supplies[k] = {{0, static_cast<double>(nodes[k])}};
    }
    std::vector<JobDemand> demands;
    for (const JobView& job : jobs_) demands.push_back(job.demand);
    const Bargain bargain = Trade(BuyersFrom(demands, 1, 0, false), supplies);
    std::vector<double> used(nodes.size(), 0);
    std::vector<double> taken(nodes.size(), 0);
    for (size_t j = 0; j < demands.size(); ++j) {
      const Purchase& purchase = bargain.purchases[j];
      if (purchase.kind < 0) continue;
      const KindDemand& demand = *DemandOn(demands[j], purchase.kind);
      used[purchase.kind] += demand.sizes[purchase.size].speedup / FullUse(demand) / demand.per_node;
      taken[purchase.kind] += NodesOf(demand, purchase.size);
    }
    double sum = 0;
    for (size_t k = 0; k < nodes.size(); ++k) {
      // Where not even the smallest sizes fit, as many as there is room for.
      sum += taken[k] > nodes[k] ? used[k] * nodes[k] / taken[k] : used[k];
    }
    return sum / std::max(1, Sum(nodes));
  }

  // What a speed-up must be worth for a job to take its next size, for all jobs and sizes; ascending, not too many.
  std::vector<double> Levels(const std::vector<JobDemand>& demands) const {
    std::vector<double> levels;
    for (const JobDemand& job : demands) {
      for (const KindDemand& demand : job.kinds) {
        for (size_t i = 1; i < demand.sizes.size(); ++i) {
          const double gain = (demand.sizes[i].speedup - demand.sizes[i - 1].speedup) * job.weight;
          const double nodes =
              NodesOf(demand, static_cast<int>(i)) - NodesOf(demand, static_cast<int>(i - 1));
          for (const Tier& tier : supplies_[demand.kind]) levels.push_back(tier.price * nodes / gain);
        }
      }
    }
    std::sort(levels.begin(), levels.end());
    levels.erase(std::unique(levels.begin(), levels.end()), levels.end());
    std::vector<double> few = {0};
    const size_t count = std::min<size_t>(levels.size(), kMostSamples);
    // A hair more than each, so that it is enough.
    for (size_t i = 0; i < count; ++i)
      few.push_back(levels[(i + 1) * levels.size() / count - 1] * (1 + 1e-6) + 1e-12);
    few.push_back(kPriceless);
    return few;
  }

  // Compositions from what jobs need at least to all that they would make good use of, each made when it is asked for.
  class Samples {
   public:
    explicit Samples(const Composer& composer)
        : composer_(composer),
          demands_(composer.Demands(composer.target_.least_use)),
          levels_(composer.Levels(demands_)),
          samples_(levels_.size()) {}

    size_t size() const { return samples_.size(); }
    const Bought& At(size_t i) {
      if (!samples_[i].has_value())
        samples_[i] = composer_.BuyFor(demands_, levels_[i], kDeadlineMargin, /*for_new_nodes=*/true);
      return *samples_[i];
    }

    // The first for which that is so; once it is, it is so for all that follow. size(): there is none.
    size_t First(const std::function<bool(const Bought&)>& is_so) {
      size_t from = 0;
      size_t to = size();
      while (from < to) {
        const size_t middle = (from + to) / 2;
        if (is_so(At(middle))) {
          to = middle;
        } else {
          from = middle + 1;
        }
      }
      return from;
    }

   private:
    const Composer& composer_;
    const std::vector<JobDemand> demands_;
    const std::vector<double> levels_;
    std::vector<std::optional<Bought>> samples_;
  };

  void FollowBand() {
    Samples samples(*this);
    const Bought& front = samples.At(0);
    const std::vector<int>& least = front.nodes;
    const std::vector<int>& most = samples.At(samples.size() - 1).nodes;
    Bought chosen = {here_, front.floor};
    for (size_t k = 0; k < here_.size(); ++k)
      chosen.nodes[k] = std::clamp(here_[k], least[k], std::max(least[k], most[k]));
    const double middle = (target_.utility_low + target_.utility_high) / 2;
    double utility = Sum(chosen.nodes) > 0 ? Utility(chosen.nodes) : 1;
    const bool too_small = utility > target_.utility_high + kRounding;
    const bool too_large = utility < target_.utility_low - kRounding;
    if (too_small || too_large) {
      const int from = Sum(chosen.nodes);
      if (too_large) chosen = front;
      double distance = std::abs(utility - middle);
      // More nodes are put to less use: the nearest one is beside where the middle is passed.
      const size_t passed = samples.First(
          [&](const Bought& sample) { return Sum(sample.nodes) > 0 && Utility(sample.nodes) <= middle; });
      for (size_t i = passed > 0 ? passed - 1 : 0; i < std::min(passed + 2, samples.size()); ++i) {
        const Bought& sample = samples.At(i);
        const int nodes = Sum(sample.nodes);
        if (too_small ? nodes < from : nodes > from) continue;
        const double here = nodes > 0 ? Utility(sample.nodes) : 1;
        if (here < target_.utility_low - kRounding || std::abs(here - middle) > distance + kRounding)
          continue;
        distance = std::abs(here - middle);
        utility = here;
        chosen = sample;
      }
    }
    result_.reason = absl::StrFormat("a utility of %.2f is wanted within %.2f to %.2f",
                                     Sum(chosen.nodes) > 0 ? Utility(chosen.nodes) : 0, target_.utility_low,
                                     target_.utility_high);
    Take(chosen, chosen);
  }

  void KeepBudget() {
    result_.reason = absl::StrFormat("at most %.2f per hour", target_.budget_per_hour);
    Samples samples(*this);
    const size_t too_dear = samples.First([&](const Bought& sample) {
      return cost_(sample.nodes, sample.floor) > target_.budget_per_hour * (1 + kRounding);
    });
    if (too_dear > 0) {
      const Bought& chosen = samples.At(too_dear - 1);
      Take(chosen, chosen);
      return;
    }
    // Not even the smallest sizes of all: of as many jobs as can be, those that come first.
    std::vector<size_t> order(jobs_.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return jobs_[a].demand.priority > jobs_[b].demand.priority; });
    size_t fits = 0;
    size_t too_many = jobs_.size();
    Bought best = FloorsOf(order, 0);
    while (fits + 1 < too_many) {
      const size_t count = (fits + too_many) / 2;
      Bought bought = FloorsOf(order, count);
      if (cost_(bought.nodes, bought.floor) > target_.budget_per_hour * (1 + kRounding)) {
        too_many = count;
      } else {
        fits = count;
        best = std::move(bought);
      }
    }
    absl::StrAppend(&result_.reason, ", which is too little for ", jobs_.size() - fits, " of ", jobs_.size(),
                    " jobs");
    Take(best, best);
  }

  Bought FloorsOf(const std::vector<size_t>& order, size_t count) const {
    std::vector<JobDemand> demands(jobs_.size());
    for (size_t i = 0; i < count; ++i) demands[order[i]] = jobs_[order[i]].demand;
    return BuyFor(demands, 0, 0, false);
  }

  void FollowPrice() {
    const double worth = 1 / target_.goodput_per_price;
    Take(Buy(worth, 0, kDeadlineMargin, true),
         Buy(worth / target_.keep_factor, 0, kKeptDeadlineMargin, false));
    result_.reason = absl::StrFormat("each unit of currency per hour is to bring a speed-up of %.4g",
                                     target_.goodput_per_price);
  }

  const Target& target_;
  const std::vector<JobView>& jobs_;
  const std::vector<KindOffer>& offers_;
  const CostFunction& cost_;
  const absl::Time now_;
  std::vector<Supply> supplies_;
  // By kind. Empty: what jobs need at least may be on any nodes.
  std::vector<double> floor_prices_;
  std::vector<int> here_;
  Composition result_;
};

}  // namespace

Composition Compose(const Target& target, const std::vector<JobView>& jobs,
                    const std::vector<KindOffer>& offers, const CostFunction& cost, absl::Time now) {
  return Composer(target, jobs, offers, cost, now).Run();
}

}  // namespace adaptdl::nodepools
