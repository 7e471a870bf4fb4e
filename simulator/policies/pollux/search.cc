#include "simulator/policies/pollux/search.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "simulator/policies/pollux/operators.h"

namespace adaptdl::simulator::pollux {
namespace {

constexpr double kCrossOverProbability = 0.9;
// Matings of a generation, in units of the population, before it makes do with fewer children.
constexpr int kMostMatings = 3;

// Any hash that is the same in every process; by words, since every child is hashed.
uint64_t Fingerprint(const State& state) {
  constexpr size_t kCells = sizeof(uint64_t) / sizeof(Cell);
  uint64_t hash = 0xcbf29ce484222325;
  const auto mix = [&hash](const Cell* cells, size_t count) {
    uint64_t word = 0;
    std::memcpy(&word, cells, count * sizeof(Cell));
    hash = (hash ^ word) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 32;
  };
  size_t i = 0;
  for (; i + kCells <= state.size(); i += kCells) mix(&state[i], kCells);
  if (i < state.size()) mix(&state[i], state.size() - i);
  return hash;
}

class Evolution {
 public:
  Evolution(const Problem& problem, const SearchOptions& options, uint64_t seed)
      : problem_(problem), options_(options), random_(seed), keys_(problem.nodes) {
    if (options.most_nodes > 0) rules_.most_nodes = options.most_nodes;
  }

  SearchResult Run(std::vector<State> start) {
    for (State& state : start) Add(std::move(state));
    Survive();
    for (int generation = 1; generation < options_.generations; ++generation) {
      if (!Breed()) break;
      Survive();
    }
    SearchResult result;
    result.front = static_cast<int>(std::count(rank_.begin(), rank_.end(), 0));
    result.population = std::move(members_);
    result.evaluated = evaluated_;
    return result;
  }

 private:
  // Repairs and evaluates, unless it is there already.
  bool Add(State state) {
    Repair(
        problem_, rules_,
        [this](int) -> absl::Span<const double> {
          for (double& key : keys_) key = random_.Uniform();
          return keys_;
        },
        state);
    const uint64_t fingerprint = Fingerprint(state);
    if (!known_.insert(fingerprint).second) {
      spare_.push_back(std::move(state));
      return false;
    }
    ++evaluated_;
    const Objectives objectives = options_.variant == Variant::kOsdi
                                      ? EvaluateOsdi(problem_, options_.power, state)
                                      : EvaluateMaster(problem_, state);
    members_.push_back({std::move(state), objectives});
    fingerprints_.push_back(fingerprint);
    return true;
  }

  // Adds as many children as there are members at most. Returns whether there is any.
  bool Breed() {
    const int wanted = options_.population;
    const size_t parents = members_.size();
    for (int mating = 0; mating < kMostMatings * wanted; mating += 2) {
      if (static_cast<int>(members_.size() - parents) >= wanted) break;
      State a = Copy(members_[Tournament(parents)].state);
      State b = Copy(members_[Tournament(parents)].state);
      if (random_.Uniform() < kCrossOverProbability) CrossOver(a, b);
      for (State* child : {&a, &b}) {
        Mutate(*child);
        Add(std::move(*child));
      }
    }
    return members_.size() > parents;
  }

  void CrossOver(State& a, State& b) {
    const int cut = random_.Below(problem_.jobs);
    if (options_.variant == Variant::kMaster) {
      const int draw = random_.Below(1 << 15);
      CrossOverMaster(problem_, cut, draw, random_.Below(1 << 15), a, b);
    } else {
      SwapJobs(problem_, cut, a, b);
    }
  }

  void Mutate(State& state) {
    if (options_.variant == Variant::kOsdi) {
      MutateOsdi(problem_, random_, state);
      return;
    }
    uniform_.resize(problem_.cells());
    for (double& value : uniform_) value = random_.Uniform();
    MutateMaster(
        problem_, uniform_,
        [this](size_t, int low, int high) { return low + random_.Below(std::max(high - low, 0) + 1); },
        /*force_least=*/false, state);
  }

  size_t Tournament(size_t members) {
    const size_t a = random_.Below(static_cast<int>(members));
    const size_t b = random_.Below(static_cast<int>(members));
    if (members_[a].objectives.Dominates(members_[b].objectives)) return a;
    if (members_[b].objectives.Dominates(members_[a].objectives)) return b;
    return crowding_[b] > crowding_[a] ? b : a;
  }

  // Keeps the best fronts; of the last that does not fit as a whole, those that are least crowded.
  void Survive() {
    std::vector<Objectives> values;
    for (const Individual& member : members_) values.push_back(member.objectives);
    const std::vector<int> rank = SortIntoFronts(values);
    std::vector<double> crowding(values.size(), 0);
    std::vector<int> order(values.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return rank[a] < rank[b]; });
    for (size_t begin = 0; begin < order.size();) {
      size_t end = begin;
      std::vector<Objectives> front;
      for (; end < order.size() && rank[order[end]] == rank[order[begin]]; ++end) {
        front.push_back(values[order[end]]);
      }
      const std::vector<double> distances = CrowdingDistances(front);
      for (size_t i = begin; i < end; ++i) crowding[order[i]] = distances[i - begin];
      begin = end;
    }
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return rank[a] != rank[b] ? rank[a] < rank[b] : crowding[a] > crowding[b];
    });
    const size_t kept = std::min<size_t>(order.size(), options_.population);
    for (size_t i = kept; i < order.size(); ++i) spare_.push_back(std::move(members_[order[i]].state));
    std::vector<Individual> survivors;
    std::vector<uint64_t> fingerprints;
    known_.clear();
    rank_.clear();
    crowding_.clear();
    for (size_t i = 0; i < kept; ++i) {
      survivors.push_back(std::move(members_[order[i]]));
      fingerprints.push_back(fingerprints_[order[i]]);
      known_.insert(fingerprints.back());
      rank_.push_back(rank[order[i]]);
      crowding_.push_back(crowding[order[i]]);
    }
    members_ = std::move(survivors);
    fingerprints_ = std::move(fingerprints);
  }

  // A copy in the memory of one that is not needed any more.
  State Copy(const State& state) {
    if (spare_.empty()) return state;
    State copy = std::move(spare_.back());
    spare_.pop_back();
    copy = state;
    return copy;
  }

  const Problem& problem_;
  const SearchOptions& options_;
  Random random_;
  RepairRules rules_;
  std::vector<double> keys_;
  std::vector<double> uniform_;
  std::vector<Individual> members_;
  std::vector<uint64_t> fingerprints_;  // of the members
  std::vector<int> rank_;
  std::vector<double> crowding_;
  std::vector<State> spare_;
  absl::flat_hash_set<uint64_t> known_;
  int64_t evaluated_ = 0;
};

}  // namespace

std::vector<int> SortIntoFronts(absl::Span<const Objectives> values) {
  std::vector<int> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return std::pair(values[a].benefit, values[a].cost) < std::pair(values[b].benefit, values[b].cost);
  });
  // In this order, a value is dominated by a front if it is dominated by the front's last, which has its
  // least cost; and if a front does not dominate it, no later one does.
  std::vector<Objectives> last;
  std::vector<int> front(values.size());
  for (const int i : order) {
    const auto found = std::partition_point(
        last.begin(), last.end(), [&](const Objectives& other) { return other.Dominates(values[i]); });
    front[i] = static_cast<int>(found - last.begin());
    if (found == last.end()) {
      last.push_back(values[i]);
    } else {
      *found = values[i];
    }
  }
  return front;
}

std::vector<double> CrowdingDistances(absl::Span<const Objectives> front) {
  std::vector<double> distance(front.size(), 0);
  std::vector<int> order(front.size());
  for (double Objectives::*axis : {&Objectives::benefit, &Objectives::cost}) {
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return front[a].*axis < front[b].*axis; });
    if (order.empty()) break;
    const double span = front[order.back()].*axis - front[order.front()].*axis;
    distance[order.front()] = distance[order.back()] = std::numeric_limits<double>::infinity();
    for (size_t i = 1; span > 0 && i + 1 < order.size(); ++i) {
      distance[order[i]] += (front[order[i + 1]].*axis - front[order[i - 1]].*axis) / span;
    }
  }
  return distance;
}

SearchResult Search(const Problem& problem, const SearchOptions& options, std::vector<State> start,
                    uint64_t seed) {
  return Evolution(problem, options, seed).Run(std::move(start));
}

}  // namespace adaptdl::simulator::pollux
