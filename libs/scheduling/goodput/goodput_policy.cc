#include "libs/scheduling/goodput/goodput_policy.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "libs/scheduling/goodput/cluster_model.h"
#include "libs/scheduling/goodput/cluster_size.h"
#include "libs/scheduling/goodput/explanation.h"
#include "libs/scheduling/goodput/packer.h"
#include "libs/scheduling/goodput/priorities.h"
#include "libs/scheduling/ranks.h"
#include "libs/scheduling/unschedulable.h"

namespace adaptdl::scheduling {
namespace {

using Placements = std::vector<Placement>;  // by job

// Jobs for which room is looked for in vain among what jobs of lower priorities hold; bounds the time of a
// decision on large clusters.
constexpr int kMostVainTries = 64;

// Puts sizes on nodes.
class Placer {
 public:
  Placer(const ClusterModel& model, const Menu& menu) : model_(model), menu_(menu), packer_(model) {
    for (const int priority : menu.priority) lowest_priority_ = std::min(lowest_priority_, priority);
  }

  // The selected sizes (by job: index in the menu, or -1), as far as there is room for them in one piece.
  Placements PlaceSelection(const std::vector<int>& wanted) {
    KeepPlaces();
    std::vector<int> movers;
    for (int job = 0; job < model_.job_count(); ++job) {
      if (wanted[job] < 0) continue;
      if (menu_.sizes[job][wanted[job]].stays && packer_.Stay(job)) continue;
      movers.push_back(job);
    }
    // By priority, and then large ones first: small ones find room between them.
    const auto units = [&](int job) { return menu_.problem.groups[job][wanted[job]].amount; };
    std::stable_sort(movers.begin(), movers.end(), [&](int a, int b) {
      if (menu_.priority[a] != menu_.priority[b]) return menu_.priority[a] > menu_.priority[b];
      return units(a) > units(b);
    });
    for (const Effort effort : {Effort::kInOnePiece, Effort::kMoveOthers, Effort::kSpread}) {
      std::vector<int> rest;
      for (const int job : movers) {
        const Size& size = menu_.sizes[job][wanted[job]];
        if (!packer_.Place(job, size.pool, size.replicas, effort)) rest.push_back(job);
      }
      movers = std::move(rest);
    }
    // Units are a guess on unequal nodes: there may be room that the selection did not know of.
    for (int job = 0; job < model_.job_count() && !model_.exact_units(); ++job) {
      if (wanted[job] < 0 && packer_.placement(job).empty()) movers.push_back(job);
    }
    ByPriority(&movers);
    for (const int job : movers) {
      if (packer_.placement(job).empty()) PlaceOrTakeFromLower(job, OfferTo(job));
    }
    ServeHigherPriorities();
    ServeNewcomers();
    return Result();
  }

  // All jobs stay where they are; those that have no place, or can't or may not keep it, get the best that is
  // free.
  Placements PlaceWithoutMoves() {
    KeepPlaces();
    std::vector<int> rest;
    for (int job = 0; job < model_.job_count(); ++job) {
      if (model_.job(job).pinned || menu_.turn[job] == Turn::kKeepsPlace ||
          (MayStay(job) && packer_.Stay(job)))
        continue;
      rest.push_back(job);
    }
    ByPriority(&rest);
    for (const int job : rest) {
      if (packer_.placement(job).empty()) PlaceOrTakeFromLower(job, OfferTo(job));
    }
    ServeHigherPriorities();
    ServeNewcomers();
    return Result();
  }

 private:
  // Places that jobs of lower priorities keep are no part of the selection, and who lost his place to a
  // higher one may find another: nobody above the lowest level is left waiting for room below him.
  void ServeHigherPriorities() {
    std::vector<int> jobs;
    for (int job = 0; job < model_.job_count(); ++job) {
      const bool must_wait = model_.job(job).pinned || menu_.turn[job] == Turn::kMustWait;
      if (menu_.priority[job] > lowest_priority_ && !must_wait) jobs.push_back(job);
    }
    ByPriority(&jobs);
    for (const int job : jobs) {
      if (packer_.placement(job).empty()) PlaceOrTakeFromLower(job, OfferTo(job));
    }
  }

  // On unequal nodes newcomers may have been sent where they find no room, or told to wait though there is some. They
  // are served in their turn, up to the first that finds none. Those that have measured themselves have had their choice.
  void ServeNewcomers() {
    for (const int job : menu_.line) {
      const auto all = menu_.anywhere.find(job);
      if (all == menu_.anywhere.end() || menu_.priority[job] == lowest_priority_) continue;
      if (!packer_.placement(job).empty() || all->second.sizes.empty()) continue;
      PlaceOrTakeFromLower(job, {all->second.sizes, all->second.options});
      if (packer_.placement(job).empty()) return;
    }
  }

  // The queue has seen to it that there is room.
  void KeepPlaces() {
    for (int job = 0; job < model_.job_count(); ++job) {
      if (menu_.turn[job] == Turn::kKeepsPlace) packer_.Stay(job, /*keeps=*/true);
    }
  }

  // Jobs of higher priorities first.
  void ByPriority(std::vector<int>* jobs) const {
    std::stable_sort(jobs->begin(), jobs->end(),
                     [&](int a, int b) { return menu_.priority[a] > menu_.priority[b]; });
  }

  // Whether its present size is on the menu: its namespace's quota may have struck it out.
  bool MayStay(int job) const {
    const std::vector<Size>& sizes = menu_.sizes[job];
    return std::any_of(sizes.begin(), sizes.end(), [](const Size& size) { return size.stays; });
  }

  // Sizes that a job may have, and their options in the same order. Not owned.
  struct Offer {
    const std::vector<Size>& sizes;
    const std::vector<Option>& options;
  };

  // What the queue leaves it, or, of a job that had a place, what it may have elsewhere.
  Offer OfferTo(int job) const {
    const auto displaced = menu_.displaced.find(job);
    if (displaced == menu_.displaced.end()) return {menu_.sizes[job], menu_.problem.groups[job]};
    return {displaced->second.sizes, displaced->second.options};
  }

  // The best size that there is room for. If there is none, jobs of lower priorities make way, the lowest
  // first, where that helps; they get what is left. (The selection knows units of pools, not nodes.)
  void PlaceOrTakeFromLower(int job, const Offer& offer) {
    if (PlaceBest(job, offer, &packer_) || menu_.priority[job] == lowest_priority_) return;
    std::vector<int> lower;
    for (int other = 0; other < model_.job_count(); ++other) {
      if (menu_.priority[other] >= menu_.priority[job] || model_.job(other).pinned) continue;
      if (!packer_.placement(other).empty()) lower.push_back(other);
    }
    if (lower.empty() || offer.sizes.empty() || vain_tries_ >= kMostVainTries) return;
    Packer trial = packer_;
    for (const int other : lower) trial.Remove(other);
    if (!PlaceBest(job, offer, &trial)) {
      ++vain_tries_;
      return;
    }
    ByPriority(&lower);
    size_t left = lower.size();
    do {
      packer_.Remove(lower[--left]);
    } while (!PlaceBest(job, offer, &packer_) && left > 0);
    for (; left < lower.size(); ++left) {
      const bool keeps = menu_.turn[lower[left]] == Turn::kKeepsPlace;
      if (keeps && packer_.Stay(lower[left], /*keeps=*/true)) continue;
      PlaceBest(lower[left], OfferTo(lower[left]), &packer_);
    }
  }

  // The best size that there is room for. False: there is none.
  static bool PlaceBest(int job, const Offer& offer, Packer* packer) {
    std::vector<int> order(offer.options.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return offer.options[a].value > offer.options[b].value; });
    for (const Effort effort : {Effort::kInOnePiece, Effort::kSpread}) {
      for (const int i : order) {
        const Size& size = offer.sizes[i];
        // If it can't stay: the same size elsewhere.
        if (size.stays && packer->Stay(job)) return true;
        if (packer->Place(job, size.pool, size.replicas, effort)) return true;
      }
    }
    return false;
  }

  Placements Result() const {
    Placements placements;
    for (int job = 0; job < model_.job_count(); ++job) placements.push_back(packer_.placement(job));
    return placements;
  }

  const ClusterModel& model_;
  const Menu& menu_;
  Packer packer_;
  int lowest_priority_ = std::numeric_limits<int>::max();
  int vain_tries_ = 0;
};

// What places are worth, changes that the packer made included.
double Worth(const ClusterModel& model, const Menu& menu, const Valuation& valuation,
             const Placements& placements) {
  double worth = 0;
  for (int job = 0; job < model.job_count(); ++job) {
    const Placement& placement = placements[job];
    if (model.job(job).pinned || menu.turn[job] == Turn::kKeepsPlace || placement.empty()) continue;
    const bool stays = model.job(job).can_stay && placement == model.job(job).present;
    const bool opens = model.Opens(job, model.pool_of(placement.front().node), CountReplicas(placement));
    worth += valuation.Value(job, model.SpeedupAt(job, placement), !stays, opens);
  }
  return worth;
}

// How many jobs have a place, by level, the highest first. Without the lowest level: it comes before nobody.
std::vector<int> Honoured(const Menu& menu, const Placements& placements) {
  std::map<int, int, std::greater<>> by_priority;
  for (size_t job = 0; job < placements.size(); ++job) {
    by_priority[menu.priority[job]] += placements[job].empty() ? 0 : 1;
  }
  std::vector<int> honoured;
  for (const auto& [priority, count] : by_priority) honoured.push_back(count);
  if (!honoured.empty()) honoured.pop_back();
  return honoured;
}

// Places the selection. If its pieces do not fit together, and leaving everybody where he is comes to more,
// it is that: else jobs would chase each other for places that there are not.
Placements Place(const ClusterModel& model, const Menu& menu, const Valuation& valuation,
                 const ChoiceResult& choice, double* worth) {
  Placements placements = Placer(model, menu).PlaceSelection(choice.chosen);
  *worth = Worth(model, menu, valuation, placements);
  if (model.exact_units() && *worth >= choice.value * (1 - 1e-9)) return placements;
  Placements kept = Placer(model, menu).PlaceWithoutMoves();
  const std::vector<int> honoured = Honoured(menu, placements);
  const std::vector<int> honoured_kept = Honoured(menu, kept);
  if (honoured_kept < honoured) return placements;
  const double worth_kept = Worth(model, menu, valuation, kept);
  if (honoured_kept == honoured && worth_kept < *worth * (1 - 1e-9)) return placements;
  *worth = worth_kept;
  return kept;
}

std::vector<std::string> ToAllocation(const JobInfo& job, const Placement& placement,
                                      const ClusterView& view) {
  std::map<std::string, int> replicas;
  for (const Share& share : placement) replicas[view.nodes[share.node].id] = share.replicas;
  return OrderRanks(job.allocation, std::move(replicas));
}

}  // namespace

Decision GoodputPolicy::Decide(const ClusterView& view, uint64_t /*seed*/) const {
  const ClusterModel model(view);
  const Valuation valuation(model, options_.valuation);
  const Menu menu = MakeMenu(model, valuation, options_.menu);
  const ChoiceResult choice = SolveByPriority(menu.problem, menu.priority, options_.limits).choice;
  double worth = 0;
  const Placements placements = Place(model, menu, valuation, choice, &worth);

  Decision decision;
  decision.quality = {choice.value, choice.bound, std::max(0.0, choice.value - worth)};
  const Explainer explainer(model, menu, choice, placements);
  decision.jobs.reserve(view.jobs.size());
  for (int job = 0; job < model.job_count(); ++job) {
    JobDecision result;
    result.key = view.jobs[job].key;
    result.allocation = ToAllocation(view.jobs[job], placements[job], view);
    result.unschedulable = placements[job].empty() && !WhyUnschedulable(view.jobs[job], view).empty();
    result.reason = explainer.Reason(job);
    result.explanation = explainer.Explanation(job);
    result.speedup = model.SpeedupAt(job, placements[job]);
    decision.value += result.speedup;
    decision.jobs.push_back(std::move(result));
  }
  decision.capacity = DecideClusterSize(model, placements, options_.capacity);
  return decision;
}

}  // namespace adaptdl::scheduling
