#include "libs/nodepools/market.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

namespace adaptdl::nodepools {
namespace {

using scheduling::JobDemand;
using scheduling::KindDemand;

// Price of what there is nothing of.
constexpr double kOutOfReach = std::numeric_limits<double>::infinity();
// A price is searched to this part of it.
constexpr int kHalvings = 24;
// Up to which a price may rise, in doublings.
constexpr int kMostDoublings = 60;
// Kinds that run out push jobs to each other; mostly one look at each is enough.
constexpr int kMostSweeps = 6;
// What a job on a kind gains by staying there, as a part of what it is worth at its smallest size: the same whatever size it
// has there.
constexpr double kStaying = 0.05;

// The first size that is as fast as it must be; the fastest, if none is.
int FirstSize(const KindDemand& demand, double least_speedup) {
  int first = 0;
  const int last = static_cast<int>(demand.sizes.size()) - 1;
  while (first < last && demand.sizes[first].speedup < least_speedup * (1 - kRounding)) ++first;
  return first;
}

bool Reaches(const KindDemand& demand, double least_speedup) {
  return demand.sizes.back().speedup >= least_speedup * (1 - kRounding);
}

class Market {
 public:
  Market(const std::vector<Buyer>& buyers, const std::vector<Supply>& supplies)
      : buyers_(buyers), supplies_(supplies), prices_(supplies.size(), kOutOfReach) {
    for (size_t k = 0; k < supplies.size(); ++k) {
      if (!supplies[k].empty()) prices_[k] = supplies[k].front().price;
    }
  }

  Bargain Run() {
    std::vector<double> nodes(supplies_.size(), 0);
    for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
      bool changed = false;
      for (size_t k = 0; k < supplies_.size(); ++k) changed |= Balance(static_cast<int>(k), &nodes[k]);
      if (!changed) break;
    }
    Bargain bargain;
    bargain.nodes.assign(supplies_.size(), 0);
    for (const Buyer& buyer : buyers_) {
      bargain.purchases.push_back(Choose(buyer));
      Add(buyer, bargain.purchases.back(), &bargain.nodes);
    }
    // Where a price lies between two amounts, all that there is up to it is worth its own price.
    for (size_t k = 0; k < nodes.size(); ++k) bargain.nodes[k] = std::max(bargain.nodes[k], nodes[k]);
    return bargain;
  }

 private:
  static void Add(const Buyer& buyer, const Purchase& purchase, std::vector<double>* nodes) {
    if (purchase.kind < 0) return;
    (*nodes)[purchase.kind] += NodesOf(*DemandOn(*buyer.demand, purchase.kind), purchase.size);
  }

  Purchase Choose(const Buyer& buyer) const {
    // Kinds on which it is as fast as it must be come first, if there are any.
    bool reached = false;
    for (const KindDemand& demand : buyer.demand->kinds) {
      reached |= prices_[demand.kind] < kOutOfReach && Reaches(demand, buyer.least_speedup);
    }
    Purchase best;
    double best_gain = 0;
    for (const KindDemand& demand : buyer.demand->kinds) {
      const double price = prices_[demand.kind];
      if (price == kOutOfReach || (reached && !Reaches(demand, buyer.least_speedup))) continue;
      const double staying =
          demand.kind == buyer.present_kind ? kStaying * buyer.worth * demand.sizes.front().speedup : 0;
      for (int i = FirstSize(demand, buyer.least_speedup); i < static_cast<int>(demand.sizes.size()); ++i) {
        const double gain = buyer.worth * demand.sizes[i].speedup + staying - price * NodesOf(demand, i);
        if (best.kind >= 0 && gain <= best_gain) continue;
        best = {demand.kind, i};
        best_gain = gain;
      }
    }
    return best;
  }

  double Demand(int kind, double price) {
    const double before = std::exchange(prices_[kind], price);
    double nodes = 0;
    for (const Buyer& buyer : buyers_) {
      const Purchase purchase = Choose(buyer);
      if (purchase.kind == kind) nodes += NodesOf(*DemandOn(*buyer.demand, kind), purchase.size);
    }
    prices_[kind] = before;
    return nodes;
  }

  // The least price from `low` on at which no more than `nodes` are taken.
  double Clear(int kind, double nodes, double low, double high) {
    for (int i = 0; i < kHalvings; ++i) {
      const double middle = (low + high) / 2;
      (Demand(kind, middle) > nodes + kRounding ? low : high) = middle;
    }
    return high;
  }

  // Finds the price at which what is taken of a kind is there. Returns whether it has changed; `least`: what is worth
  // having in any case.
  bool Balance(int kind, double* least) {
    const Supply& supply = supplies_[kind];
    *least = 0;
    if (supply.empty()) return false;
    const double before = prices_[kind];
    double there = 0;
    for (size_t t = 0; t < supply.size(); ++t) {
      const double taken = Demand(kind, supply[t].price);
      if (t > 0 && taken <= there + kRounding) {
        // Worth more than the tier before costs, and less than this one.
        prices_[kind] = Clear(kind, there, supply[t - 1].price, supply[t].price);
        *least = there;
        return prices_[kind] != before;
      }
      there += supply[t].nodes;
      if (taken <= there + kRounding) {
        prices_[kind] = supply[t].price;
        return prices_[kind] != before;
      }
    }
    *least = there;
    double high = std::max(supply.back().price, 1e-6);
    // Where not even the smallest sizes fit, those leave that can go elsewhere.
    const double highest = std::ldexp(high, kMostDoublings);
    if (Demand(kind, highest) > there + kRounding) {
      prices_[kind] = highest;
      return prices_[kind] != before;
    }
    while (Demand(kind, high) > there + kRounding) high *= 2;
    prices_[kind] = Clear(kind, there, supply.back().price, high);
    return prices_[kind] != before;
  }

  const std::vector<Buyer>& buyers_;
  const std::vector<Supply>& supplies_;
  std::vector<double> prices_;  // by kind
};

}  // namespace

const KindDemand* DemandOn(const JobDemand& job, int kind) {
  for (const KindDemand& demand : job.kinds) {
    if (demand.kind == kind) return &demand;
  }
  return nullptr;
}

Bargain Trade(const std::vector<Buyer>& buyers, const std::vector<Supply>& supplies) {
  return Market(buyers, supplies).Run();
}

}  // namespace adaptdl::nodepools
