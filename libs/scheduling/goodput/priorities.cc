#include "libs/scheduling/goodput/priorities.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <vector>

namespace adaptdl::scheduling {
namespace {

// Levels for which others change pools; bounds the time of a decision where there are thousands of levels.
constexpr int kMostExchanges = 64;

bool CanBeChosen(const ChoiceProblem& problem, const Option& option) {
  return option.value > 0 && option.amount <= problem.capacity[option.pool];
}

// Groups that can have anything, by priority, the highest first.
std::map<int, std::vector<int>, std::greater<>> Levels(const ChoiceProblem& problem,
                                                       const std::vector<int>& priority) {
  std::map<int, std::vector<int>, std::greater<>> levels;
  for (size_t g = 0; g < problem.groups.size(); ++g) {
    const bool can = std::any_of(problem.groups[g].begin(), problem.groups[g].end(),
                                 [&](const Option& option) { return CanBeChosen(problem, option); });
    if (can) levels[priority[g]].push_back(static_cast<int>(g));
  }
  return levels;
}

// The best selection in which each group of `served` has something; `problem.known` is one. One premium for
// all of them does it: they have places together, so none needs to outbid another, and it is no more than all
// groups could lose.
ChoiceResult SolveServing(const ChoiceProblem& problem, const std::vector<char>& served,
                          const ChoiceLimits& limits) {
  double premium = 1;
  for (const std::vector<Option>& group : problem.groups) {
    double best = 0;
    for (const Option& option : group) best = std::max(best, option.value);
    premium += best;
  }
  ChoiceProblem with_premium = problem;
  double premiums = 0;
  for (size_t g = 0; g < problem.groups.size(); ++g) {
    if (!served[g]) continue;
    premiums += premium;
    for (Option& option : with_premium.groups[g]) {
      if (CanBeChosen(problem, option)) option.value += premium;
    }
  }
  ChoiceResult result = SolveMultipleChoice(with_premium, limits);
  result.value = 0;
  for (size_t g = 0; g < problem.groups.size(); ++g) {
    if (result.chosen[g] >= 0) result.value += problem.groups[g][result.chosen[g]].value;
  }
  result.bound = std::max(result.value, result.bound - premiums);
  return result;
}

// Lets groups in, a level at a time.
class Entrance {
 public:
  Entrance(const ChoiceProblem& problem, const ChoiceLimits& limits)
      : problem_(problem),
        limits_(limits),
        left_(problem.capacity),
        chosen_(problem.groups.size(), -1),
        let_in_(problem.groups.size(), 0) {}

  void LetIn(const std::vector<int>& level) {
    bool all = Choose(level, {});
    if (!all && left_.size() > 1 && exchanges_++ < kMostExchanges) {
      // There may be room if those before are content with another pool.
      std::vector<int> groups = members_;
      groups.insert(groups.end(), level.begin(), level.end());
      Choose(groups, let_in_);
    }
    for (const int group : level) {
      if (chosen_[group] < 0) continue;
      let_in_[group] = 1;
      members_.push_back(group);
    }
  }

  // By group: the index of the smallest size in the pool where there is room for it, or -1.
  const std::vector<int>& chosen() const { return chosen_; }
  const std::vector<char>& let_in() const { return let_in_; }

 private:
  // Chooses anew for these groups; those of `served` (by group of the whole problem; empty: none) go on
  // having something. Whether all have.
  bool Choose(const std::vector<int>& groups, const std::vector<char>& served) {
    ChoiceProblem smallest;
    std::vector<std::vector<int>> index;
    std::vector<char> must;
    for (const int group : groups) {
      index.push_back(SmallestByPool(group));
      smallest.groups.emplace_back();
      smallest.known.push_back(-1);
      must.push_back(served.empty() ? 0 : served[group]);
      for (size_t i = 0; i < index.back().size(); ++i) {
        smallest.groups.back().push_back(problem_.groups[group][index.back()[i]]);
        if (index.back()[i] == chosen_[group]) smallest.known.back() = static_cast<int>(i);
      }
      Set(group, -1);
    }
    smallest.capacity = left_;
    const ChoiceResult result = SolveServing(smallest, must, limits_);
    bool all = true;
    for (size_t g = 0; g < groups.size(); ++g) {
      Set(groups[g], result.chosen[g] < 0 ? -1 : index[g][result.chosen[g]]);
      all = all && result.chosen[g] >= 0;
    }
    return all;
  }

  void Set(int group, int option) {
    const auto left = [&]() -> int& { return left_[problem_.groups[group][chosen_[group]].pool]; };
    if (chosen_[group] >= 0) left() += problem_.groups[group][chosen_[group]].amount;
    chosen_[group] = option;
    if (option >= 0) left() -= problem_.groups[group][option].amount;
  }

  // The best of the smallest options, for each pool that has any.
  std::vector<int> SmallestByPool(int group) const {
    const std::vector<Option>& options = problem_.groups[group];
    std::map<int, int> smallest;
    for (size_t i = 0; i < options.size(); ++i) {
      if (!CanBeChosen(problem_, options[i])) continue;
      const auto [found, is_new] = smallest.emplace(options[i].pool, static_cast<int>(i));
      const Option& known = options[found->second];
      const bool smaller = options[i].amount < known.amount ||
                           (options[i].amount == known.amount && options[i].value > known.value);
      if (!is_new && smaller) found->second = static_cast<int>(i);
    }
    std::vector<int> indices;
    for (const auto& [pool, i] : smallest) indices.push_back(i);
    return indices;
  }

  const ChoiceProblem& problem_;
  const ChoiceLimits& limits_;
  std::vector<int> left_;
  std::vector<int> chosen_;
  std::vector<char> let_in_;
  std::vector<int> members_;  // who was let in
  int exchanges_ = 0;
};

}  // namespace

PrioritisedChoice SolveByPriority(const ChoiceProblem& problem, const std::vector<int>& priority,
                                  const ChoiceLimits& limits) {
  const auto levels = Levels(problem, priority);
  if (levels.size() < 2) {
    return {SolveMultipleChoice(problem, limits), std::vector<char>(problem.groups.size(), 0)};
  }
  Entrance entrance(problem, limits);
  for (auto level = levels.begin(); std::next(level) != levels.end(); ++level) entrance.LetIn(level->second);
  ChoiceProblem all = problem;
  all.known = entrance.chosen();
  return {SolveServing(all, entrance.let_in(), limits), entrance.let_in()};
}

}  // namespace adaptdl::scheduling
