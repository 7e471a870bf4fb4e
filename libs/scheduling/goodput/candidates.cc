#include "libs/scheduling/goodput/candidates.h"

#include <algorithm>

namespace adaptdl::scheduling {

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

void Selection::Choose(size_t group, int position) {
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

void Selection::Take(const Selection& other) {
  chosen_ = other.chosen_;
  left_ = other.left_;
  value_ = other.value_;
}

}  // namespace adaptdl::scheduling
