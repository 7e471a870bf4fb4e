// Prices of the units of each pool: what every group likes best at them, how much of the pools that takes, and what bounds all
// selections from above.
//
// At prices only the upper convex hull of a group's options in a pool is ever liked best (Sinha and Zoltners, "The
// multiple-choice knapsack problem", 1979), so the options are sifted to that once.
//
// Immutable once made; thread-safe.

#ifndef ADAPTDL_LIBS_SCHEDULING_GOODPUT_UNIT_PRICES_H_
#define ADAPTDL_LIBS_SCHEDULING_GOODPUT_UNIT_PRICES_H_

#include <cstddef>
#include <vector>

#include "libs/scheduling/goodput/candidates.h"

namespace adaptdl::scheduling {

// What prices say.
struct Dual {
  // No selection is worth more.
  double bound = 0;
  // Demand minus supply, by pool.
  std::vector<double> excess;
};

class UnitPrices {
 public:
  // Neither need be alive afterwards.
  UnitPrices(const Candidates& candidates, const std::vector<int>& capacity);

  size_t groups() const { return first_row_.size() - 1; }

  // What a group likes best: a position in its candidates, or -1; and what that is worth beyond its price.
  struct Liking {
    int position = -1;
    double surplus = 0;
  };
  Liking LikingOf(size_t group, const std::vector<double>& price) const;

  Dual Evaluate(const std::vector<double>& price) const;

  // Sets the price of one pool to the least that balances it, the others' given; the bound is convex in it.
  void Balance(int pool, std::vector<double>* price) const;

 private:
  struct Corner {
    double value = 0;
    int amount = 0;
    int position = 0;
  };
  // A group's options in one pool.
  struct Row {
    int pool = 0;
    int begin = 0;  // of the corners
    int end = 0;
  };
  class Demand;

  // The corner that is liked best at the price: equals stay with the smaller amount. REQUIRES: the row has any.
  const Corner& BestOf(const Row& row, double price) const;

  std::vector<int> capacity_;
  std::vector<Corner> corners_;
  std::vector<Row> rows_;
  std::vector<int> first_row_;  // by group, and one more
};

}  // namespace adaptdl::scheduling

#endif  // ADAPTDL_LIBS_SCHEDULING_GOODPUT_UNIT_PRICES_H_
