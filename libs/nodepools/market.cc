#include "libs/nodepools/market.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
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

// A size of a job on a kind, at any price.
struct Step {
  // The price for a node up to which it is taken; falls from size to size. Infinite for the first.
  double limit = kOutOfReach;
  // What it gains but for the price.
  double gain = 0;
  double nodes = 0;
};

// What a job makes of one kind.
struct Choice {
  int kind = 0;
  // Index of the first of its sizes that is fast enough; the others follow.
  int first = 0;
  std::vector<Step> steps;
  // Nodes whose price is at least `floor_price`.
  double floor_nodes = 0;
  double floor_price = 0;

  const Step& At(double price) const {
    const auto end = std::partition_point(steps.begin() + 1, steps.end(),
                                          [&](const Step& step) { return step.limit > price; });
    return *std::prev(end);
  }
  int SizeOf(const Step& step) const { return first + static_cast<int>(&step - steps.data()); }
  double Gain(const Step& step, double price) const {
    return step.gain - price * step.nodes - std::max(0.0, floor_price - price) * floor_nodes;
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
        const Step& step = best.choice->At(prices_[best.choice->kind]);
        purchase = {best.choice->kind, best.choice->SizeOf(step)};
        bargain.nodes[purchase.kind] += step.nodes;
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
    choices.reserve(buyer.demand->kinds.size());
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
    choice.first = FirstSize(demand, buyer.least_speedup);
    choice.floor_nodes = NodesOf(demand, 0);
    const double staying =
        demand.kind == buyer.present_kind ? kStaying * buyer.worth * demand.sizes.front().speedup : 0;
    for (size_t i = choice.first; i < demand.sizes.size(); ++i) {
      Step step{kOutOfReach, buyer.worth * demand.sizes[i].speedup + staying,
                NodesOf(demand, static_cast<int>(i))};
      if (!choice.steps.empty()) {
        const double more = demand.sizes[i].speedup - demand.sizes[i - 1].speedup;
        step.limit = buyer.worth * more / (step.nodes - choice.steps.back().nodes);
      }
      choice.steps.push_back(step);
    }
    return choice;
  }

  // The choice that gains most, of equals the first; kind `without` is left out.
  Best BestOf(const std::vector<Choice>& choices, int without) const {
    Best best;
    for (const Choice& choice : choices) {
      if (choice.kind == without) continue;
      const double price = prices_[choice.kind];
      const double gain = choice.Gain(choice.At(price), price);
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
    const Step& step = rival.here->At(price);
    if (rival.elsewhere.choice != nullptr) {
      const double gain = rival.here->Gain(step, price);
      const bool stays = gain > rival.elsewhere.gain ||
                         (gain == rival.elsewhere.gain && rival.here < rival.elsewhere.choice);
      if (!stays) return 0;
    }
    return step.nodes;
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
