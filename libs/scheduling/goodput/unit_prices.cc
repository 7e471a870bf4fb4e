#include "libs/scheduling/goodput/unit_prices.h"

#include <algorithm>
#include <cmath>

namespace adaptdl::scheduling {

UnitPrices::UnitPrices(const Candidates& candidates, const std::vector<int>& capacity) : capacity_(capacity) {
  first_row_.push_back(0);
  for (const std::vector<Candidate>& group : candidates) {
    for (size_t i = 0; i < group.size(); ++i) {
      const Candidate& next = group[i];
      if (i == 0 || next.pool != group[i - 1].pool) {
        const int begin = static_cast<int>(corners_.size());
        rows_.push_back({next.pool, begin, begin});
      }
      Row& row = rows_.back();
      // A corner that does not rise above the line from the one before it to the next one is none.
      while (row.end - row.begin >= 2) {
        const Corner& last = corners_[row.end - 1];
        const Corner& before = corners_[row.end - 2];
        if ((last.value - before.value) * (next.amount - before.amount) >
            (next.value - before.value) * (last.amount - before.amount))
          break;
        corners_.pop_back();
        --row.end;
      }
      corners_.push_back({next.value, next.amount, static_cast<int>(i)});
      ++row.end;
    }
    first_row_.push_back(static_cast<int>(rows_.size()));
  }
}

const UnitPrices::Corner& UnitPrices::BestOf(const Row& row, double price) const {
  int best = row.begin;
  while (best + 1 < row.end) {
    const Corner& now = corners_[best];
    const Corner& next = corners_[best + 1];
    if (next.value - now.value <= price * (next.amount - now.amount) + kValueRounding) break;
    ++best;
  }
  return corners_[best];
}

UnitPrices::Liking UnitPrices::LikingOf(size_t group, const std::vector<double>& price) const {
  Liking liking;
  for (int r = first_row_[group]; r < first_row_[group + 1]; ++r) {
    const Corner& best = BestOf(rows_[r], price[rows_[r].pool]);
    const double surplus = best.value - price[rows_[r].pool] * best.amount;
    if (surplus > liking.surplus + kValueRounding) liking = {best.position, surplus};
  }
  return liking;
}

Dual UnitPrices::Evaluate(const std::vector<double>& price) const {
  Dual dual;
  dual.excess.resize(capacity_.size());
  for (size_t p = 0; p < capacity_.size(); ++p) {
    dual.bound += price[p] * capacity_[p];
    dual.excess[p] = -capacity_[p];
  }
  for (size_t g = 0; g < groups(); ++g) {
    double surplus = 0;
    const Corner* liked = nullptr;
    int pool = 0;
    for (int r = first_row_[g]; r < first_row_[g + 1]; ++r) {
      const Corner& best = BestOf(rows_[r], price[rows_[r].pool]);
      const double offered = best.value - price[rows_[r].pool] * best.amount;
      if (offered <= surplus + kValueRounding) continue;
      surplus = offered;
      liked = &best;
      pool = rows_[r].pool;
    }
    dual.bound += surplus;
    if (liked != nullptr) dual.excess[pool] += liked->amount;
  }
  return dual;
}

// What the groups take of one pool, by its price, when those of the others are given. It falls as the price rises, so a
// group that takes the same at both ends of what is looked at takes that in between, too, and is not asked again.
class UnitPrices::Demand {
 public:
  Demand(const UnitPrices& prices, int pool, const std::vector<double>& price) : prices_(prices) {
    for (size_t g = 0; g < prices.groups(); ++g) {
      Taker taker;
      for (int r = prices.first_row_[g]; r < prices.first_row_[g + 1]; ++r) {
        const Row& row = prices.rows_[r];
        if (row.pool == pool) {
          taker.row = &row;
          continue;
        }
        const Corner& best = prices.BestOf(row, price[row.pool]);
        taker.elsewhere = std::max(taker.elsewhere, best.value - price[row.pool] * best.amount);
      }
      if (taker.row == nullptr) continue;
      takers_.push_back(taker);
      for (int c = taker.row->begin; c < taker.row->end; ++c) {
        const Corner& corner = prices.corners_[c];
        if (corner.amount > 0) dearest_ = std::max(dearest_, corner.value / corner.amount);
      }
    }
    for (Taker& taker : takers_) taker.at_low = AmountOf(taker, 0);
  }

  // A price at which nothing is taken.
  double dearest() const { return dearest_; }

  double AtNothing() const {
    double taken = 0;
    for (const Taker& taker : takers_) taken += taker.at_low;
    return taken;
  }

  // In between the prices that were narrowed to.
  double At(double price) {
    double taken = known_;
    for (Taker& taker : takers_) {
      taker.at_middle = AmountOf(taker, price);
      taken += taker.at_middle;
    }
    return taken;
  }

  // From the price that was asked for last to the high end, or from the low end to it.
  void Narrow(bool to_high) {
    size_t left = 0;
    for (Taker& taker : takers_) {
      (to_high ? taker.at_low : taker.at_high) = taker.at_middle;
      if (taker.at_low == taker.at_high) {
        known_ += taker.at_low;
      } else {
        takers_[left++] = taker;
      }
    }
    takers_.resize(left);
  }

 private:
  struct Taker {
    const Row* row = nullptr;
    // The surplus that the group has in another pool, or none.
    double elsewhere = 0;
    int at_low = 0;
    int at_middle = 0;
    int at_high = 0;
  };

  int AmountOf(const Taker& taker, double price) const {
    const Corner& best = prices_.BestOf(*taker.row, price);
    return best.value - price * best.amount > taker.elsewhere + kValueRounding ? best.amount : 0;
  }

  const UnitPrices& prices_;
  std::vector<Taker> takers_;
  double dearest_ = 0;
  double known_ = 0;
};

void UnitPrices::Balance(int pool, std::vector<double>* price) const {
  constexpr int kBisections = 48;
  // A price that was found before is near to the one that is looked for now.
  constexpr double kNear = 1.05;
  constexpr double kFar = 8;
  const double before = (*price)[pool];
  Demand demand(*this, pool, *price);
  (*price)[pool] = 0;
  if (demand.AtNothing() <= capacity_[pool]) return;
  double low = 0;
  double high = demand.dearest();
  for (int i = 0; i < kBisections && high - low > 1e-9 * high; ++i) {
    double middle = low > 0 ? std::sqrt(low * high) : high / kFar;
    if (before > low && before < high) {
      middle = before;
    } else if (before > 0 && before == low && before * kNear < high) {
      middle = before * kNear;
    } else if (before == high && before / kNear > low) {
      middle = before / kNear;
    }
    const bool too_cheap = demand.At(middle) > capacity_[pool];
    (too_cheap ? low : high) = middle;
    demand.Narrow(too_cheap);
  }
  (*price)[pool] = high;
}

}  // namespace adaptdl::scheduling
