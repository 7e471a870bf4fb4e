#include "libs/scheduling/goodput/multiple_choice.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

namespace adaptdl::scheduling {
namespace {

constexpr double kValueRounding = 1e-12;
// Rounds of repair that look for a better use of what is left over.
constexpr int kFillRounds = 8;

// An option, and its place in its group.
struct Candidate {
  double value = 0;
  int pool = 0;
  int amount = 0;
  int index = 0;
};

using Candidates = std::vector<std::vector<Candidate>>;

// Without those that can't be chosen, and those that another one of the same pool makes useless.
Candidates Sift(const ChoiceProblem& problem) {
  Candidates result(problem.groups.size());
  for (size_t g = 0; g < problem.groups.size(); ++g) {
    std::vector<Candidate>& kept = result[g];
    const std::vector<Option>& options = problem.groups[g];
    for (int i = 0; i < static_cast<int>(options.size()); ++i) {
      const Option& option = options[i];
      if (option.value > 0 && option.amount <= problem.capacity[option.pool]) {
        kept.push_back({option.value, option.pool, option.amount, i});
      }
    }
    std::sort(kept.begin(), kept.end(), [](const Candidate& a, const Candidate& b) {
      if (a.pool != b.pool) return a.pool < b.pool;
      if (a.amount != b.amount) return a.amount < b.amount;
      if (a.value != b.value) return a.value > b.value;
      return a.index < b.index;
    });
    size_t end = 0;
    for (const Candidate& candidate : kept) {
      if (end > 0 && kept[end - 1].pool == candidate.pool && kept[end - 1].value >= candidate.value) continue;
      kept[end++] = candidate;
    }
    kept.resize(end);
  }
  return result;
}

// --- dynamic programming

// More than any table has.
constexpr int64_t kTooMany = int64_t{1} << 40;

// Of numbers above 0; kTooMany if that is less.
int64_t BoundedProduct(int64_t a, int64_t b) { return a > kTooMany / b ? kTooMany : a * b; }

// States of the table (what every pool has left, in mixed radix) times options; kTooMany if that is less.
int64_t CountUpdates(const Candidates& candidates, const std::vector<int>& capacity) {
  int64_t updates = 1;
  for (const int units : capacity) updates = BoundedProduct(updates, int64_t{units} + 1);
  int64_t options = 0;
  for (const auto& group : candidates) options += static_cast<int64_t>(group.size());
  return BoundedProduct(updates, std::max<int64_t>(options, 1));
}

// A table whose states an int can count, whatever the limit.
bool FitsTable(int64_t updates, int64_t limit) {
  return updates <= std::min<int64_t>(limit, std::numeric_limits<int>::max());
}

class Table {
 public:
  Table(const Candidates& candidates, const std::vector<int>& capacity)
      : candidates_(candidates), capacity_(capacity) {}

  // The best position in each group's candidates, or -1.
  std::vector<int> Solve() {
    stride_.resize(capacity_.size());
    int states = 1;
    for (size_t p = 0; p < capacity_.size(); ++p) {
      stride_[p] = states;
      states *= capacity_[p] + 1;
    }
    // value[s]: the most that the groups so far get out of s.
    std::vector<double> value(states, 0);
    std::vector<double> next(states);
    picks_.assign(candidates_.size(), std::vector<int16_t>());
    for (size_t g = 0; g < candidates_.size(); ++g) {
      if (candidates_[g].empty()) continue;
      next = value;
      picks_[g].assign(states, -1);
      for (size_t i = 0; i < candidates_[g].size(); ++i) {
        Update(candidates_[g][i], static_cast<int16_t>(i), value, &next, picks_[g].data());
      }
      value.swap(next);
    }
    return TraceBack(states - 1);
  }

 private:
  // Every state that has room for the candidate's amount.
  void Update(const Candidate& candidate, int16_t position, const std::vector<double>& value,
              std::vector<double>* next, int16_t* picks) const {
    const int shift = candidate.amount * stride_[candidate.pool];
    const int block = (capacity_[candidate.pool] + 1) * stride_[candidate.pool];
    double* to = next->data();
    const double* from = value.data();
    const int states = static_cast<int>(value.size());
    for (int start = 0; start < states; start += block) {
      const int end = start + block;
      for (int s = start + shift; s < end; ++s) {
        const double offered = from[s - shift] + candidate.value;
        // Equals stay with the smaller amount.
        if (offered > to[s] + kValueRounding) {
          to[s] = offered;
          picks[s] = position;
        }
      }
    }
  }

  std::vector<int> TraceBack(int state) const {
    std::vector<int> chosen(candidates_.size(), -1);
    for (size_t g = candidates_.size(); g-- > 0;) {
      if (picks_[g].empty()) continue;
      chosen[g] = picks_[g][state];
      if (chosen[g] < 0) continue;
      const Candidate& candidate = candidates_[g][chosen[g]];
      state -= candidate.amount * stride_[candidate.pool];
    }
    return chosen;
  }

  const Candidates& candidates_;
  const std::vector<int>& capacity_;
  std::vector<int> stride_;
  std::vector<std::vector<int16_t>> picks_;
};

// --- Lagrangian relaxation

// A selection in the making: positions in the candidates, and what is left in each pool.
class Selection {
 public:
  Selection(const Candidates& candidates, const std::vector<int>& capacity)
      : candidates_(candidates), chosen_(candidates.size(), -1), left_(capacity) {}

  void Choose(size_t group, int position) {
    if (const Candidate* old = At(group)) {
      left_[old->pool] += old->amount;
      value_ -= old->value;
    }
    chosen_[group] = position;
    if (const Candidate* now = At(group)) {
      left_[now->pool] -= now->amount;
      value_ += now->value;
    }
  }
  // The group's present choice; null if there is none.
  const Candidate* At(size_t group) const {
    return chosen_[group] < 0 ? nullptr : &candidates_[group][chosen_[group]];
  }
  int left(int pool) const { return left_[pool]; }
  int pools() const { return static_cast<int>(left_.size()); }
  double value() const { return value_; }
  const std::vector<int>& chosen() const { return chosen_; }

 private:
  const Candidates& candidates_;
  std::vector<int> chosen_;
  std::vector<int> left_;
  double value_ = 0;
};

double Reduced(const Candidate& candidate, const std::vector<double>& price) {
  return candidate.value - price[candidate.pool] * candidate.amount;
}

// The best position at these prices, or -1, and its reduced value.
std::pair<int, double> BestAt(const std::vector<Candidate>& group, const std::vector<double>& price) {
  std::pair<int, double> best = {-1, 0};
  for (size_t i = 0; i < group.size(); ++i) {
    const double reduced = Reduced(group[i], price);
    if (reduced > best.second + kValueRounding) best = {static_cast<int>(i), reduced};
  }
  return best;
}

struct Dual {
  double bound = 0;
  // Demand minus supply, by pool.
  std::vector<double> excess;
};

Dual Evaluate(const Candidates& candidates, const std::vector<int>& capacity,
              const std::vector<double>& price) {
  Dual dual;
  dual.excess.assign(capacity.size(), 0);
  for (size_t p = 0; p < capacity.size(); ++p) {
    dual.bound += price[p] * capacity[p];
    dual.excess[p] = -capacity[p];
  }
  for (const auto& group : candidates) {
    const auto [position, reduced] = BestAt(group, price);
    dual.bound += reduced;
    if (position >= 0) dual.excess[group[position].pool] += group[position].amount;
  }
  return dual;
}

// The price of one pool that balances it, the others' given. The bound is convex in it.
void Balance(const Candidates& candidates, const std::vector<int>& capacity, int pool,
             std::vector<double>* price) {
  double high = 0;
  for (const auto& group : candidates) {
    for (const Candidate& candidate : group) {
      if (candidate.pool == pool && candidate.amount > 0) {
        high = std::max(high, candidate.value / candidate.amount);
      }
    }
  }
  double low = 0;
  (*price)[pool] = 0;
  if (Evaluate(candidates, capacity, *price).excess[pool] <= 0) return;
  constexpr int kBisections = 40;
  for (int i = 0; i < kBisections && high - low > 1e-9 * high; ++i) {
    (*price)[pool] = (low + high) / 2;
    (Evaluate(candidates, capacity, *price).excess[pool] > 0 ? low : high) = (*price)[pool];
  }
  (*price)[pool] = high;
}

// Takes from jobs what a pool does not have, where that costs least per unit.
void MakeFeasible(const Candidates& candidates, Selection* selection) {
  struct Step {
    double loss = 0;  // per unit
    size_t group = 0;
    int position = -1;
  };
  for (int pool = 0; pool < selection->pools(); ++pool) {
    while (selection->left(pool) < 0) {
      Step best{std::numeric_limits<double>::infinity(), 0, -1};
      bool found = false;
      for (size_t g = 0; g < candidates.size(); ++g) {
        const Candidate* now = selection->At(g);
        if (now == nullptr || now->pool != pool || now->amount == 0) continue;
        const auto consider = [&](int position, double value, int freed) {
          const double loss = (now->value - value) / std::min(freed, -selection->left(pool));
          if (loss < best.loss) best = {loss, g, position}, found = true;
        };
        consider(-1, 0, now->amount);
        for (size_t i = 0; i < candidates[g].size(); ++i) {
          const Candidate& other = candidates[g][i];
          const bool helps =
              other.pool == pool ? other.amount < now->amount : selection->left(other.pool) >= other.amount;
          if (helps) {
            consider(static_cast<int>(i), other.value, now->amount - (other.pool == pool ? other.amount : 0));
          }
        }
      }
      if (!found) return;
      selection->Choose(best.group, best.position);
    }
  }
}

// Gives what is left to whoever gains most per unit.
void Fill(const Candidates& candidates, Selection* selection) {
  struct Step {
    double rate = 0;
    size_t group = 0;
    int position = 0;
  };
  for (int round = 0; round < kFillRounds; ++round) {
    std::vector<Step> steps;
    for (size_t g = 0; g < candidates.size(); ++g) {
      const Candidate* now = selection->At(g);
      Step best;
      for (size_t i = 0; i < candidates[g].size(); ++i) {
        const Candidate& other = candidates[g][i];
        const int held = now != nullptr && now->pool == other.pool ? now->amount : 0;
        const double gain = other.value - (now == nullptr ? 0 : now->value);
        if (gain <= kValueRounding || other.amount - held > selection->left(other.pool)) continue;
        const double rate = gain / std::max(other.amount - held, 1);
        if (rate > best.rate) best = {rate, g, static_cast<int>(i)};
      }
      if (best.rate > 0) steps.push_back(best);
    }
    if (steps.empty()) return;
    std::stable_sort(steps.begin(), steps.end(),
                     [](const Step& a, const Step& b) { return a.rate > b.rate; });
    for (const Step& step : steps) {
      const Candidate* now = selection->At(step.group);
      const Candidate& other = candidates[step.group][step.position];
      const int held = now != nullptr && now->pool == other.pool ? now->amount : 0;
      if (other.amount - held <= selection->left(other.pool)) selection->Choose(step.group, step.position);
    }
  }
}

Selection Repair(const Candidates& candidates, const std::vector<int>& capacity,
                 const std::vector<double>& price) {
  Selection selection(candidates, capacity);
  for (size_t g = 0; g < candidates.size(); ++g) selection.Choose(g, BestAt(candidates[g], price).first);
  MakeFeasible(candidates, &selection);
  Fill(candidates, &selection);
  return selection;
}

class Relaxation {
 public:
  // `known`: a selection that there is room for.
  Relaxation(const Candidates& candidates, const std::vector<int>& capacity, const Selection& known)
      : candidates_(candidates), capacity_(capacity), price_(capacity.size(), 0), best_(known) {
    Fill(candidates_, &best_);
  }

  void Solve(int steps) {
    std::vector<double> price = price_;
    bound_ = Try(price).bound;
    const int sweeps = capacity_.size() == 1 ? 1 : 3;
    for (int sweep = 0; sweep < sweeps; ++sweep) {
      for (size_t p = 0; p < capacity_.size(); ++p)
        Balance(candidates_, capacity_, static_cast<int>(p), &price);
      Try(price);
    }
    Improve(price_);
    if (capacity_.size() > 1) Descend(steps);
    Improve(price_);
  }

  double bound() const { return bound_; }
  const std::vector<double>& price() const { return price_; }
  const Selection& best() const { return best_; }

 private:
  Dual Try(const std::vector<double>& price) {
    Dual dual = Evaluate(candidates_, capacity_, price);
    if (first_ || dual.bound < bound_) {
      bound_ = dual.bound;
      price_ = price;
      first_ = false;
    }
    return dual;
  }

  void Improve(const std::vector<double>& price) {
    Selection selection = Repair(candidates_, capacity_, price);
    if (selection.value() <= best_.value() + kValueRounding) return;
    for (size_t g = 0; g < candidates_.size(); ++g) best_.Choose(g, selection.chosen()[g]);
  }

  // Polyak's rule: the step that would reach the known selection's value if the bound were linear.
  void Descend(int steps) {
    std::vector<double> price = price_;
    double factor = 1;
    double last = bound_;
    for (int step = 0; step < steps && bound_ - best_.value() > 1e-9 * bound_; ++step) {
      const Dual dual = Try(price);
      double norm = 0;
      for (size_t p = 0; p < price.size(); ++p) {
        if (price[p] == 0 && dual.excess[p] < 0) continue;
        norm += dual.excess[p] * dual.excess[p];
      }
      if (norm == 0) return;
      const double length = factor * (dual.bound - best_.value()) / norm;
      for (size_t p = 0; p < price.size(); ++p) price[p] = std::max(0.0, price[p] + length * dual.excess[p]);
      if (step % 10 == 9) {
        if (bound_ > last - 1e-6 * last) {
          factor /= 2;
          price = price_;
        }
        last = bound_;
        Improve(price);
      }
    }
  }

  const Candidates& candidates_;
  const std::vector<int>& capacity_;
  std::vector<double> price_;
  double bound_ = 0;
  bool first_ = true;
  Selection best_;
};

// Strikes out what can be in no better selection than the known one.
void StrikeOut(const Relaxation& relaxation, Candidates* candidates) {
  const double slack = relaxation.bound() - relaxation.best().value();
  for (auto& group : *candidates) {
    const double best = BestAt(group, relaxation.price()).second;
    group.erase(std::remove_if(group.begin(), group.end(),
                               [&](const Candidate& candidate) {
                                 return best - Reduced(candidate, relaxation.price()) > slack + 1e-9;
                               }),
                group.end());
  }
}

// The known selection, or nothing. Options that were sifted out are replaced by what made them useless.
Selection KnownSelection(const ChoiceProblem& problem, const Candidates& candidates) {
  Selection selection(candidates, problem.capacity);
  for (size_t g = 0; g < problem.known.size(); ++g) {
    if (problem.known[g] < 0) continue;
    const Option& known = problem.groups[g][problem.known[g]];
    for (size_t i = 0; i < candidates[g].size(); ++i) {
      const Candidate& candidate = candidates[g][i];
      if (candidate.pool != known.pool || candidate.amount > known.amount || candidate.value < known.value) {
        continue;
      }
      selection.Choose(g, static_cast<int>(i));
      break;
    }
  }
  return selection;
}

std::vector<int> ToIndices(const Candidates& candidates, const std::vector<int>& positions) {
  std::vector<int> indices(candidates.size(), -1);
  for (size_t g = 0; g < candidates.size(); ++g) {
    if (positions[g] >= 0) indices[g] = candidates[g][positions[g]].index;
  }
  return indices;
}

double ValueOf(const ChoiceProblem& problem, const std::vector<int>& chosen) {
  double value = 0;
  for (size_t g = 0; g < chosen.size(); ++g) {
    if (chosen[g] >= 0) value += problem.groups[g][chosen[g]].value;
  }
  return value;
}

}  // namespace

ChoiceResult SolveMultipleChoice(const ChoiceProblem& problem, const ChoiceLimits& limits) {
  ChoiceResult result;
  Candidates candidates = Sift(problem);
  const bool small = FitsTable(CountUpdates(candidates, problem.capacity), limits.table_updates / 8);
  if (!small) {
    Relaxation relaxation(candidates, problem.capacity, KnownSelection(problem, candidates));
    relaxation.Solve(limits.price_steps);
    result.price = relaxation.price();
    result.bound = relaxation.bound();
    result.chosen = ToIndices(candidates, relaxation.best().chosen());
    result.value = ValueOf(problem, result.chosen);
    if (result.bound - result.value <= 1e-9 * result.bound) return result;
    StrikeOut(relaxation, &candidates);
    if (!FitsTable(CountUpdates(candidates, problem.capacity), limits.table_updates)) return result;
  }
  const std::vector<int> exact = ToIndices(candidates, Table(candidates, problem.capacity).Solve());
  const double value = ValueOf(problem, exact);
  if (small || value > result.value) {
    result.chosen = exact;
    result.value = value;
  }
  result.bound = result.value;
  if (small) {
    result.price.assign(problem.capacity.size(), 0);
    for (size_t p = 0; p < problem.capacity.size(); ++p) {
      Balance(candidates, problem.capacity, static_cast<int>(p), &result.price);
    }
  }
  return result;
}

}  // namespace adaptdl::scheduling
