#include "libs/elastic/noise_scale.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <exception>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "adaptdl/scaling_rule.h"
#include "nlohmann/json.hpp"

namespace adaptdl::elastic {
namespace {

constexpr int kVersion = 1;
constexpr double kSmallestVar = 1e-6;
// Sums of such squares stay finite.
constexpr double kLargestSquare = 1e300;

// Scales are quotients of sample counts: differences beyond rounding are real.
bool Close(double a, double b) { return std::abs(a - b) <= 1e-8 + 1e-5 * std::abs(b); }

bool AllFinite(absl::Span<const double> numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [](double number) { return std::isfinite(number); });
}

double FiniteAtLeast0(const nlohmann::json& value) {
  const double number = value.get<double>();
  if (!(std::isfinite(number) && number >= 0)) throw std::invalid_argument("a number is out of range");
  return number;
}

int64_t CountAtLeast0(const nlohmann::json& value) {
  if (!value.is_number_integer()) throw std::invalid_argument("a count is not a whole number");
  const int64_t number = value.get<int64_t>();
  if (number < 0) throw std::invalid_argument("a count is negative");
  return number;
}

std::vector<double> FiniteNumbers(const nlohmann::json& value) {
  std::vector<double> numbers = value.get<std::vector<double>>();
  if (!AllFinite(numbers)) throw std::invalid_argument("a number is not finite");
  return numbers;
}

}  // namespace

bool Accumulation::SetBatchScale(double batch_scale) {
  if (Close(batch_scale, batch_scale_)) return false;
  const bool dropped = count_ > 0;
  batch_scale_ = batch_scale;
  Reset();
  return dropped;
}

void Accumulation::Add(absl::Span<const double> sqr, double weight, double loss_scale) {
  assert(sqr.size() == local_sqr_.size());
  for (size_t group = 0; group < local_sqr_.size(); ++group) {
    local_sqr_[group] += weight * (sqr[group] / (loss_scale * loss_scale));
  }
  weight_ += weight;
  ++count_;
}

void Accumulation::Reset() {
  count_ = 0;
  weight_ = 0;
  std::fill(local_sqr_.begin(), local_sqr_.end(), 0);
}

NoiseScale::NoiseScale(const NoiseScaleOptions& options)
    : options_(options),
      sqr_avg_(options.groups, 1),
      var_avg_(options.groups, 0),
      sqr_sum_(options.groups, 0),
      var_sum_(options.groups, 0) {
  assert(options.groups >= 1 && options.period >= 1 && options.smoothing > 0 && options.smoothing < 1);
}

NoiseScale::Plan NoiseScale::PlanStep(int64_t count, bool have_previous) const {
  const int64_t period = estimates_ < options_.first_estimates ? 1 : options_.period;
  const bool due = skipped_steps_ + 1 >= period;
  if (count > 1) return {.norms = due};
  const bool due_next = period == 1 || skipped_steps_ + 2 == period;
  return {.norms = due, .compare = due && have_previous, .keep = due_next || (due && !have_previous)};
}

NoiseScale::Outcome NoiseScale::Update(const StepNorms& norms) {
  assert(norms.count >= 1 && norms.scale > 0);
  if (norms.total_sqr.empty()) {
    ++skipped_steps_;
    // What the step would have decayed the past by.
    skipped_scale_ += norms.count > 1 ? norms.scale : 2 * norms.scale;
    return Outcome::kSkipped;
  }
  assert(norms.total_sqr.size() == groups());
  return norms.count > 1 ? UpdateFromMean(norms) : UpdateFromPair(norms);
}

NoiseScale::Outcome NoiseScale::UpdateFromMean(const StepNorms& norms) {
  assert(norms.local_sqr.size() == groups());
  const double count = static_cast<double>(norms.count);
  const double weight = norms.local_weight > 0 ? norms.local_weight : count;
  const double unscale = norms.loss_scale * norms.loss_scale;
  std::vector<double> sqr(groups());
  std::vector<double> var(groups());
  for (size_t group = 0; group < groups(); ++group) {
    const double local = norms.local_sqr[group] / weight;
    const double total = norms.total_sqr[group] / unscale;
    sqr[group] = (count * total - local) / (count - 1);
    var[group] = (local - total) * norms.scale / (count - 1);
  }
  // Differenced estimates are biased: better ones do not build on them.
  if (!Average(sqr, var, norms.scale, /*start_anew=*/differenced_)) return Outcome::kNotFinite;
  differenced_ = false;
  return Outcome::kUpdated;
}

NoiseScale::Outcome NoiseScale::UpdateFromPair(const StepNorms& norms) {
  if (!AllFinite(norms.total_sqr)) return Outcome::kNotFinite;
  differenced_ = true;
  if (norms.previous_dot.empty()) return Outcome::kSkipped;
  assert(norms.previous_dot.size() == groups() && norms.previous_sqr.size() == groups());
  const double previous_scale = norms.previous_scale > 0 ? norms.previous_scale : norms.scale;
  // The noise of both gradients is Sigma (1 / scale + 1 / previous_scale).
  const double mean_scale = 4 / (1 / norms.scale + 1 / previous_scale);
  std::vector<double> sqr(groups());
  std::vector<double> var(groups());
  for (size_t group = 0; group < groups(); ++group) {
    const double current = norms.total_sqr[group] / (norms.loss_scale * norms.loss_scale);
    const double previous =
        norms.previous_sqr[group] / (norms.previous_loss_scale * norms.previous_loss_scale);
    const double dot = norms.previous_dot[group] / (norms.loss_scale * norms.previous_loss_scale);
    // The formulas for count = 2, with the mean norm (current + previous) / 2 and the norm of the mean
    // (current + previous + 2 dot) / 4, come to this.
    sqr[group] = dot;
    var[group] = (current + previous - 2 * dot) / 4 * mean_scale;
  }
  // A previous gradient that was not finite gives nothing, and is no fault of this one.
  const bool averaged = Average(sqr, var, norms.scale + previous_scale, /*start_anew=*/false);
  return averaged ? Outcome::kUpdated : Outcome::kSkipped;
}

bool NoiseScale::Average(const std::vector<double>& sqr, const std::vector<double>& var, double decay_scale,
                         bool start_anew) {
  if (!AllFinite(sqr) || !AllFinite(var)) return false;
  const double decay = std::pow(options_.smoothing, skipped_scale_ + decay_scale);
  const double past = start_anew ? 0 : decay;
  for (size_t group = 0; group < groups(); ++group) {
    sqr_sum_[group] = past * sqr_sum_[group] + (1 - decay) * sqr[group];
    var_sum_[group] = past * var_sum_[group] + (1 - decay) * var[group];
  }
  weight_ = past * weight_ + (1 - decay);
  const double total = std::accumulate(sqr.begin(), sqr.end(), 0.0);
  square_sum_ = past * square_sum_ + (1 - decay) * std::min(total * total, kLargestSquare);
  weight_square_sum_ = past * past * weight_square_sum_ + (1 - decay) * (1 - decay);
  ++estimates_;
  skipped_steps_ = 0;
  skipped_scale_ = 0;
  Correct();
  return true;
}

void NoiseScale::Correct() {
  for (size_t group = 0; group < groups(); ++group) {
    sqr_avg_[group] = weight_ > 0 ? sqr_sum_[group] / weight_ : 1;
    var_avg_[group] = weight_ > 0 ? var_sum_[group] / weight_ : 0;
  }
}

bool NoiseScale::ScaleChanged(double scale) {
  const bool changed = prev_scale_ > 0 && !Close(scale, prev_scale_);
  if (changed || prev_scale_ == 0) prev_scale_ = scale;
  return changed;
}

void NoiseScale::Advance(double scale) { progress_ += Gain(scale); }

double NoiseScale::sqr_avg() const {
  double sum = 0;
  for (const double sqr : sqr_avg_) sum += std::max(sqr, 0.0);
  return sum;
}

double NoiseScale::sqr_bound() const {
  if (!(weight_ > 0) || !(weight_square_sum_ > 0)) return sqr_avg();
  const double mean = std::accumulate(sqr_avg_.begin(), sqr_avg_.end(), 0.0);
  const double square = square_sum_ / weight_;
  // Estimates of equal weight that would be as certain.
  const double count = weight_ * weight_ / weight_square_sum_;
  const double variance = count > 1.5 ? std::max(square - mean * mean, 0.0) / (count - 1) : square;
  return std::max(mean + 2 * std::sqrt(variance), sqr_avg());
}

double NoiseScale::var_avg() const {
  double sum = 0;
  for (const double var : var_avg_) sum += std::max(var, kSmallestVar);
  return sum;
}

double NoiseScale::Gain(double scale) const { return adaptdl::Gain(sqr_avg(), var_avg(), scale); }

std::string NoiseScale::Save() const {
  return nlohmann::json{{"version", kVersion},
                        {"progress", progress_},
                        {"prev_scale", prev_scale_},
                        {"differenced", differenced_},
                        {"sqr_sum", sqr_sum_},
                        {"var_sum", var_sum_},
                        {"weight", weight_},
                        {"square_sum", square_sum_},
                        {"weight_square_sum", weight_square_sum_},
                        {"estimates", estimates_},
                        {"skipped_steps", skipped_steps_},
                        {"skipped_scale", skipped_scale_}}
      .dump();
}

absl::Status NoiseScale::Load(const std::string& text) {
  NoiseScale loaded(options_);
  try {
    const nlohmann::json saved = nlohmann::json::parse(text);
    if (saved.at("version") != kVersion) throw std::invalid_argument("it is of an unknown version");
    loaded.progress_ = FiniteAtLeast0(saved.at("progress"));
    loaded.prev_scale_ = FiniteAtLeast0(saved.at("prev_scale"));
    loaded.differenced_ = saved.at("differenced").get<bool>();
    loaded.sqr_sum_ = FiniteNumbers(saved.at("sqr_sum"));
    loaded.var_sum_ = FiniteNumbers(saved.at("var_sum"));
    loaded.weight_ = FiniteAtLeast0(saved.at("weight"));
    // Older versions did not save these.
    if (saved.contains("estimates")) {
      loaded.estimates_ = CountAtLeast0(saved.at("estimates"));
      loaded.square_sum_ = FiniteAtLeast0(saved.at("square_sum"));
      loaded.weight_square_sum_ = FiniteAtLeast0(saved.at("weight_square_sum"));
    }
    loaded.skipped_steps_ = CountAtLeast0(saved.at("skipped_steps"));
    loaded.skipped_scale_ = FiniteAtLeast0(saved.at("skipped_scale"));
    if (loaded.weight_ > 1) throw std::invalid_argument("the weight exceeds 1");
    if (loaded.sqr_sum_.size() != loaded.var_sum_.size()) throw std::invalid_argument("averages are missing");
  } catch (const std::exception& error) {
    return absl::DataLossError(absl::StrCat("the saved gradient statistics cannot be read: ", error.what()));
  }
  if (loaded.sqr_sum_.size() != groups()) {
    return absl::FailedPreconditionError(absl::StrCat("the saved gradient statistics are of ",
                                                      loaded.sqr_sum_.size(),
                                                      " parameter groups, but the optimizer has ", groups()));
  }
  loaded.Correct();
  if (!AllFinite(loaded.sqr_avg_) || !AllFinite(loaded.var_avg_)) {
    return absl::DataLossError("the saved gradient statistics cannot be read: the weight is too small");
  }
  *this = std::move(loaded);
  return absl::OkStatus();
}

}  // namespace adaptdl::elastic
