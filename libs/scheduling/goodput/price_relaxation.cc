#include "libs/scheduling/goodput/price_relaxation.h"

#include <algorithm>

#include "libs/scheduling/goodput/choice_repair.h"

namespace adaptdl::scheduling {
namespace {

// The search for prices is made finer, or ends, when it brings less.
constexpr double kLeastProgress = 1e-6;
constexpr int kMostSweeps = 12;

}  // namespace

PriceRelaxation::PriceRelaxation(const Candidates& candidates, const std::vector<int>& capacity,
                                 const Selection& known)
    : candidates_(candidates),
      capacity_(capacity),
      prices_(candidates, capacity),
      price_(capacity.size(), 0),
      best_(known) {
  Fill(candidates_, &best_);
}

void PriceRelaxation::Solve(int steps, double tolerance) {
  tolerance_ = tolerance;
  std::vector<double> price = price_;
  Try(price);
  BalanceAll(&price);
  Improve(price_);
  if (capacity_.size() > 1) Descend(steps);
  Improve(price_);
}

void PriceRelaxation::BalanceAll(std::vector<double>* price) {
  const int sweeps = capacity_.size() == 1 ? 1 : kMostSweeps;
  for (int sweep = 0; sweep < sweeps; ++sweep) {
    const double last = bound_;
    for (size_t p = 0; p < capacity_.size(); ++p) prices_.Balance(static_cast<int>(p), price);
    Try(*price);
    if (sweep > 0 && bound_ > last - std::max(kLeastProgress, tolerance_ / 10) * last) return;
  }
}

Dual PriceRelaxation::Try(const std::vector<double>& price) {
  Dual dual = prices_.Evaluate(price);
  if (first_ || dual.bound < bound_) {
    bound_ = dual.bound;
    price_ = price;
    first_ = false;
  }
  return dual;
}

bool PriceRelaxation::is_close() const { return bound_ - best_.value() <= tolerance_ * bound_; }

void PriceRelaxation::Improve(const std::vector<double>& price) {
  if (is_close()) return;
  Selection selection(candidates_, capacity_);
  for (size_t g = 0; g < candidates_.size(); ++g) selection.Choose(g, prices_.LikingOf(g, price).position);
  MakeFeasible(candidates_, &selection);
  Fill(candidates_, &selection);
  if (selection.value() > best_.value() + kValueRounding) best_.Take(selection);
}

// Polyak's rule: the step that would reach the known selection's value if the bound were linear.
void PriceRelaxation::Descend(int steps) {
  std::vector<double> price = price_;
  double factor = 1;
  double last = bound_;
  for (int step = 0; step < steps && !is_close(); ++step) {
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
      if (bound_ > last - kLeastProgress * last) {
        factor /= 2;
        price = price_;
      }
      last = bound_;
      Improve(price);
    }
  }
}

void PriceRelaxation::StrikeOut(Candidates* candidates) const {
  const double slack = bound_ - best_.value();
  for (size_t g = 0; g < candidates->size(); ++g) {
    std::vector<Candidate>& group = (*candidates)[g];
    const double best = prices_.LikingOf(g, price_).surplus;
    const auto is_out = [&](const Candidate& candidate) {
      return best - (candidate.value - price_[candidate.pool] * candidate.amount) > slack + 1e-9;
    };
    group.erase(std::remove_if(group.begin(), group.end(), is_out), group.end());
  }
}

}  // namespace adaptdl::scheduling
