#include "libs/scheduling/goodput/choice_repair.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <vector>

namespace adaptdl::scheduling {
namespace {

// Rounds of repair that look for a better use of what is left over.
constexpr int kFillRounds = 8;

// What a group could take instead of what it has.
struct Exchange {
  // What that loses or gains, per unit.
  double rate = 0;
  size_t group = 0;
  int position = -1;
};

// Whether the group has another choice that takes less of the pool, and the cheapest one.
bool CheapestExchange(const std::vector<Candidate>& options, const Selection& selection, int pool,
                      size_t group, Exchange* step) {
  const Candidate* now = selection.At(group);
  if (now == nullptr || now->pool != pool || now->amount == 0) return false;
  const int missing = -selection.left(pool);
  *step = {now->value / std::min(now->amount, missing), group, -1};
  for (size_t i = 0; i < options.size(); ++i) {
    const Candidate& other = options[i];
    const bool helps =
        other.pool == pool ? other.amount < now->amount : selection.left(other.pool) >= other.amount;
    if (!helps) continue;
    const int freed = now->amount - (other.pool == pool ? other.amount : 0);
    const double loss = (now->value - other.value) / std::min(freed, missing);
    if (loss < step->rate) *step = {loss, group, static_cast<int>(i)};
  }
  return true;
}

bool IsDearer(const Exchange& a, const Exchange& b) {
  return a.rate != b.rate ? a.rate > b.rate : a.group > b.group;
}

}  // namespace

void MakeFeasible(const Candidates& candidates, Selection* selection) {
  for (int pool = 0; pool < selection->pools(); ++pool) {
    if (selection->left(pool) >= 0) continue;
    std::vector<Exchange> steps;
    Exchange step;
    for (size_t g = 0; g < candidates.size(); ++g) {
      if (CheapestExchange(candidates[g], *selection, pool, g, &step)) steps.push_back(step);
    }
    std::priority_queue<Exchange, std::vector<Exchange>, decltype(&IsDearer)> queue(&IsDearer,
                                                                                    std::move(steps));
    while (selection->left(pool) < 0 && !queue.empty()) {
      const Exchange known = queue.top();
      queue.pop();
      // Since then others have taken steps, which makes this one no cheaper: less is missing, and less is left elsewhere.
      if (!CheapestExchange(candidates[known.group], *selection, pool, known.group, &step)) continue;
      if (!queue.empty() && IsDearer(step, queue.top())) {
        queue.push(step);
        continue;
      }
      selection->Choose(step.group, step.position);
      if (CheapestExchange(candidates[step.group], *selection, pool, step.group, &step)) queue.push(step);
    }
  }
}

void Fill(const Candidates& candidates, Selection* selection) {
  for (int round = 0; round < kFillRounds; ++round) {
    std::vector<Exchange> steps;
    for (size_t g = 0; g < candidates.size(); ++g) {
      const Candidate* now = selection->At(g);
      Exchange best;
      for (size_t i = 0; i < candidates[g].size(); ++i) {
        const Candidate& other = candidates[g][i];
        const int held = now != nullptr && now->pool == other.pool ? now->amount : 0;
        if (other.amount - held > selection->left(other.pool)) continue;
        const double gain = other.value - (now == nullptr ? 0 : now->value);
        if (gain <= kValueRounding) continue;
        const double rate = gain / std::max(other.amount - held, 1);
        if (rate > best.rate) best = {rate, g, static_cast<int>(i)};
      }
      if (best.rate > 0) steps.push_back(best);
    }
    if (steps.empty()) return;
    std::stable_sort(steps.begin(), steps.end(),
                     [](const Exchange& a, const Exchange& b) { return a.rate > b.rate; });
    for (const Exchange& step : steps) {
      const Candidate* now = selection->At(step.group);
      const Candidate& other = candidates[step.group][step.position];
      const int held = now != nullptr && now->pool == other.pool ? now->amount : 0;
      if (other.amount - held <= selection->left(other.pool)) selection->Choose(step.group, step.position);
    }
  }
}

}  // namespace adaptdl::scheduling
