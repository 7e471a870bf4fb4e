// Lagrangian relaxation of a selection problem: prices at which demand and supply meet, the bound that they are, and the best
// selection that repairing what groups like at them gives.
//
// Not thread-safe; deterministic.

#ifndef ADAPTDL_LIBS_SCHEDULING_GOODPUT_PRICE_RELAXATION_H_
#define ADAPTDL_LIBS_SCHEDULING_GOODPUT_PRICE_RELAXATION_H_

#include <vector>

#include "libs/scheduling/goodput/candidates.h"
#include "libs/scheduling/goodput/unit_prices.h"

namespace adaptdl::scheduling {

class PriceRelaxation {
 public:
  // `known`: a selection that there is room for. The candidates must outlive it.
  PriceRelaxation(const Candidates& candidates, const std::vector<int>& capacity, const Selection& known);

  // `steps`: of the search for prices, at most, after balancing the pools one by one. It ends when the best selection is within
  // this part of the bound.
  void Solve(int steps, double tolerance);

  double bound() const { return bound_; }
  const std::vector<double>& price() const { return price_; }
  const Selection& best() const { return best_; }

  // Strikes out what can be in no better selection than the best known one.
  void StrikeOut(Candidates* candidates) const;

 private:
  Dual Try(const std::vector<double>& price);
  void BalanceAll(std::vector<double>* price);
  void Improve(const std::vector<double>& price);
  void Descend(int steps);
  bool is_close() const;

  const Candidates& candidates_;
  const std::vector<int>& capacity_;
  const UnitPrices prices_;
  double tolerance_ = 0;
  std::vector<double> price_;
  double bound_ = 0;
  bool first_ = true;
  Selection best_;
};

}  // namespace adaptdl::scheduling

#endif  // ADAPTDL_LIBS_SCHEDULING_GOODPUT_PRICE_RELAXATION_H_
