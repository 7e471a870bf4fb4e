#include "libs/nodepools/market.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
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

// What a job makes of one kind, at any price.
struct Choice {
  int kind = 0;
  int first = 0;
  const KindDemand* demand = nullptr;
  // What it gains at its first size but for the price.
  double first_gain = 0;
  // Nodes whose price is at least `floor_price`.
  double floor_nodes = 0;
  double floor_price = 0;
  // By size after the first: the price for a node up to which it is taken; falls. The gain of it, but for the price.
  std::vector<double> limits;
  std::vector<double> gains;

  int SizeAt(double price) const {
    const auto end =
        std::partition_point(limits.begin(), limits.end(), [&](double limit) { return limit > price; });
    return first + static_cast<int>(end - limits.begin());
  }
  double GainAt(int size, double price) const {
    const double gain = size == first ? first_gain : gains[size - first - 1];
    return gain - price * NodesOf(*demand, size) - std::max(0.0, floor_price - price) * floor_nodes;
  }
};

class Market {
 public:
  Market(const std::vector<Buyer>& buyers, const std::vector<Supply>& supplies,
         const std::vector<double>& floor_prices)
      : buyers_(buyers), supplies_(supplies), prices_(supplies.size(), kOutOfReach) {
    for (size_t k = 0; k < supplies.size(); ++k) {
      if (!supplies[k].empty()) prices_[k] = supplies[k].front().price;
    }
    choices_.reserve(buyers.size());
    for (const Buyer& buyer : buyers) choices_.push_back(ChoicesOf(buyer, floor_prices));
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
    for (size_t b = 0; b < buyers_.size(); ++b) {
      const Best best = BestOf(choices_[b], -1);
      Purchase purchase;
      if (best.choice != nullptr) {
        purchase = {best.choice->kind, best.choice->SizeAt(prices_[best.choice->kind])};
        bargain.nodes[purchase.kind] += NodesOf(*best.choice->demand, purchase.size);
      }
      bargain.purchases.push_back(purchase);
    }
    // Where a price lies between two amounts, all that there is up to it is worth its own price.
    for (size_t k = 0; k < nodes.size(); ++k) bargain.nodes[k] = std::max(bargain.nodes[k], nodes[k]);
    return bargain;
  }

 private:
  struct Best {
    const Choice* choice = nullptr;
    double gain = 0;
  };
  // A job that may take nodes of the kind whose price is looked for, and what it gains elsewhere.
  struct Rival {
    const Choice* here = nullptr;
    Best elsewhere;
  };
  // One that takes different amounts at both ends of what prices may be.
  struct Open {
    const Rival* rival = nullptr;
    double at_low = 0;
    double at_high = 0;
    double at_middle = 0;
  };

  std::vector<Choice> ChoicesOf(const Buyer& buyer, const std::vector<double>& floor_prices) const {
    // Kinds on which it is as fast as it must be come first, if there are any.
    bool reached = false;
    for (const KindDemand& demand : buyer.demand->kinds)
      reached |= !supplies_[demand.kind].empty() && Reaches(demand, buyer.least_speedup);
    std::vector<Choice> choices;
    for (const KindDemand& demand : buyer.demand->kinds) {
      if (supplies_[demand.kind].empty() || (reached && !Reaches(demand, buyer.least_speedup))) continue;
      choices.push_back(MakeChoice(buyer, demand));
      if (!floor_prices.empty()) choices.back().floor_price = floor_prices[demand.kind];
    }
    return choices;
  }

  static Choice MakeChoice(const Buyer& buyer, const KindDemand& demand) {
    Choice choice;
    choice.kind = demand.kind;
    choice.demand = &demand;
    choice.first = FirstSize(demand, buyer.least_speedup);
    choice.floor_nodes = NodesOf(demand, 0);
    const double staying =
        demand.kind == buyer.present_kind ? kStaying * buyer.worth * demand.sizes.front().speedup : 0;
    choice.first_gain = buyer.worth * demand.sizes[choice.first].speedup + staying;
    for (size_t i = choice.first + 1; i < demand.sizes.size(); ++i) {
      const double more = demand.sizes[i].speedup - demand.sizes[i - 1].speedup;
      const double nodes = NodesOf(demand, static_cast<int>(i)) - NodesOf(demand, static_cast<int>(i - 1));
      choice.limits.push_back(buyer.worth * more / nodes);
      choice.gains.push_back(buyer.worth * demand.sizes[i].speedup + staying);
    }
    return choice;
  }

  // The choice that gains most, of equals the first; kind `without` is left out.
  Best BestOf(const std::vector<Choice>& choices, int without) const {
    Best best;
    for (const Choice& choice : choices) {
      if (choice.kind == without) continue;
      const double price = prices_[choice.kind];
      const double gain = choice.GainAt(choice.SizeAt(price), price);
      if (best.choice == nullptr || gain > best.gain) best = {&choice, gain};
    }
    return best;
  }

  void FindRivals(int kind) {
    rivals_.clear();
    for (const std::vector<Choice>& choices : choices_) {
      const auto here = std::find_if(choices.begin(), choices.end(),
                                     [&](const Choice& choice) { return choice.kind == kind; });
      if (here != choices.end()) rivals_.push_back({&*here, BestOf(choices, kind)});
    }
  }

  // Nodes that one takes at this price; falls as it rises.
  static double TakenBy(const Rival& rival, double price) {
    const int size = rival.here->SizeAt(price);
    if (rival.elsewhere.choice != nullptr) {
      const double gain = rival.here->GainAt(size, price);
      const bool stays = gain > rival.elsewhere.gain ||
                         (gain == rival.elsewhere.gain && rival.here < rival.elsewhere.choice);
      if (!stays) return 0;
    }
    return NodesOf(*rival.here->demand, size);
  }

  // Nodes of the kind that FindRivals() was asked about that are taken at this price.
  double Demand(double price) const {
    double nodes = 0;
    for (const Rival& rival : rivals_) nodes += TakenBy(rival, price);
    return nodes;
  }

  // The least price from `low` on at which no more than `nodes` are taken. Jobs that take the same at both ends take that
  // in between, too, and are not asked again.
  double Clear(double nodes, double low, double high) {
    double settled = 0;
    open_.clear();
    for (const Rival& rival : rivals_) {
      const double at_low = TakenBy(rival, low);
      const double at_high = TakenBy(rival, high);
      if (at_low == at_high) {
        settled += at_low;
      } else {
        open_.push_back({&rival, at_low, at_high, 0});
      }
    }
    for (int i = 0; i < kHalvings; ++i) {
      const double middle = (low + high) / 2;
      double taken = settled;
      for (Open& open : open_) taken += open.at_middle = TakenBy(*open.rival, middle);
      const bool too_much = taken > nodes + kRounding;
      (too_much ? low : high) = middle;
      std::erase_if(open_, [&](Open& open) {
        (too_much ? open.at_low : open.at_high) = open.at_middle;
        if (open.at_low != open.at_high) return false;
        settled += open.at_low;
        return true;
      });
    }
    return high;
  }

  // Finds the price at which what is taken of a kind is there. Returns whether it has changed; `least`: what is worth
  // having in any case.
  bool Balance(int kind, double* least) {
    const Supply& supply = supplies_[kind];
    *least = 0;
    if (supply.empty()) return false;
    FindRivals(kind);
    const double before = prices_[kind];
    double there = 0;
    for (size_t t = 0; t < supply.size(); ++t) {
      const double taken = Demand(supply[t].price);
      if (t > 0 && taken <= there + kRounding) {
        // Worth more than the tier before costs, and less than this one.
        prices_[kind] = Clear(there, supply[t - 1].price, supply[t].price);
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
    if (Demand(highest) > there + kRounding) {
      prices_[kind] = highest;
      return prices_[kind] != before;
    }
    while (Demand(high) > there + kRounding) high *= 2;
    prices_[kind] = Clear(there, supply.back().price, high);
    return prices_[kind] != before;
  }

  const std::vector<Buyer>& buyers_;
  const std::vector<Supply>& supplies_;
  std::vector<double> prices_;                // by kind
  std::vector<std::vector<Choice>> choices_;  // by buyer, in order of kind
  std::vector<Rival> rivals_;
  std::vector<Open> open_;
};

}  // namespace

const KindDemand* DemandOn(const JobDemand& job, int kind) {
  for (const KindDemand& demand : job.kinds) {
    if (demand.kind == kind) return &demand;
  }
  return nullptr;
}

Bargain Trade(const std::vector<Buyer>& buyers, const std::vector<Supply>& supplies,
              const std::vector<double>& floor_prices) {
  return Market(buyers, supplies, floor_prices).Run();
}

}  // namespace adaptdl::nodepools
