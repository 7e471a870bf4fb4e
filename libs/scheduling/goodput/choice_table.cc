#include "libs/scheduling/goodput/choice_table.h"

#include <algorithm>
#include <limits>

namespace adaptdl::scheduling {
namespace {

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

}  // namespace

bool FitsTable(const Candidates& candidates, const std::vector<int>& capacity, int64_t most_updates) {
  // A table whose states an int can count, whatever the limit.
  return CountUpdates(candidates, capacity) <=
         std::min<int64_t>(most_updates, std::numeric_limits<int>::max());
}

bool MayFitTable(const std::vector<int>& capacity, int64_t most_updates) {
  return FitsTable({}, capacity, most_updates);
}

std::vector<int> SolveByTable(const Candidates& candidates, const std::vector<int>& capacity) {
  return Table(candidates, capacity).Solve();
}

}  // namespace adaptdl::scheduling
