#include "libs/elastic/gradients/noise_scale.h"

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
// So many estimates weigh as much as what is taken for true before there are any: that larger batches are
// worth nothing.
constexpr double kDoubtedEstimates = 16;
// Sums of such squares stay finite.
constexpr double kLargestSquare = 1e300;

// Scales are quotients of sample counts: differences beyond rounding are real.
bool Close(double a, double b) { return std::abs(a - b) <= 1e-8 + 1e-5 * std::abs(b); }

bool AllFinite(absl::Span<const double> numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [](double number) { return std::isfinite(number); });
}

// `sqr` by `total`, but for what rounding and luck do to it. 1 without gradients: nothing is known then.
double PartOf(double sqr, double total) { return total > 0 ? std::clamp(sqr / total, -1.0, 1.0) : 1; }

// Of two gradients in a row. Noise turns the second one, and so does the step between them: what small an
// angle there is, is half taken for the step's (cos x = 1 - x^2 / 2, and its root 1 - x^2 / 4).
double PartOfPair(double dot, double current, double previous) {
  return std::sqrt(std::abs(PartOf(dot, std::sqrt(current) * std::sqrt(previous))));
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
      means_(options.groups),
      pairs_(options.groups) {
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
  Estimate estimate = {.scale = norms.scale};
  double all_sqr = 0;
  double all_total = 0;
  for (size_t group = 0; group < groups(); ++group) {
    const double local = norms.local_sqr[group] / weight;
    const double total = norms.total_sqr[group] / unscale;
    estimate.sqr.push_back((count * total - local) / (count - 1));
    estimate.var.push_back((local - total) * norms.scale / (count - 1));
    estimate.part.push_back(PartOf(estimate.sqr.back(), total));
    all_sqr += estimate.sqr.back();
    all_total += total;
  }
  estimate.total_part = PartOf(all_sqr, all_total);
  if (!Average(estimate, norms.scale, &means_)) return Outcome::kNotFinite;
  // Differenced estimates are biased: better ones do not build on them.
  pairs_ = Sums(groups());
  Correct();
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
  Estimate estimate = {.scale = mean_scale / 2};
  double all_dot = 0;
  double all_current = 0;
  double all_previous = 0;
  for (size_t group = 0; group < groups(); ++group) {
    const double current = norms.total_sqr[group] / (norms.loss_scale * norms.loss_scale);
    const double previous =
        norms.previous_sqr[group] / (norms.previous_loss_scale * norms.previous_loss_scale);
    const double dot = norms.previous_dot[group] / (norms.loss_scale * norms.previous_loss_scale);
    // The formulas for count = 2, with the mean norm (current + previous) / 2 and the norm of the mean
    // (current + previous + 2 dot) / 4, come to this.
    estimate.sqr.push_back(dot);
    estimate.var.push_back((current + previous - 2 * dot) / 4 * mean_scale);
    estimate.part.push_back(PartOfPair(dot, current, previous));
    all_dot += dot;
    all_current += current;
    all_previous += previous;
  }
  estimate.total_part = PartOfPair(all_dot, all_current, all_previous);
  // A previous gradient that was not finite gives nothing, and is no fault of this one. The estimate says as
  // much as one from two batches of the mean size.
  const bool averaged = Average(estimate, mean_scale, &pairs_);
  return averaged ? Outcome::kUpdated : Outcome::kSkipped;
}

void NoiseScale::Sums::Decay(double factor) {
  for (std::vector<double>* sums : {&sqr, &var, &part_square}) {
    for (double& sum : *sums) sum *= factor;
  }
  for (double* sum : {&total_square, &surprise_square, &surprise_weight, &total_part_square, &scale, &weight})
    *sum *= factor;
  weight_square *= factor * factor;
}

void NoiseScale::Sums::Add(double weight_of_new, const Estimate& estimate) {
  for (size_t group = 0; group < sqr.size(); ++group) {
    sqr[group] += weight_of_new * estimate.sqr[group];
    var[group] += weight_of_new * estimate.var[group];
    part_square[group] += weight_of_new * estimate.part[group] * estimate.part[group];
  }
  const double total = std::accumulate(estimate.sqr.begin(), estimate.sqr.end(), 0.0);
  total_square += weight_of_new * std::min(total * total, kLargestSquare);
  total_part_square += weight_of_new * estimate.total_part * estimate.total_part;
  scale += weight_of_new * estimate.scale;
  weight += weight_of_new;
  weight_square += weight_of_new * weight_of_new;
}

void NoiseScale::Sums::AddSurprise(double weight_of_new, double surprise) {
  surprise_square += weight_of_new * std::min(surprise * surprise, kLargestSquare);
  surprise_weight += weight_of_new;
}

double NoiseScale::ExpectedTotal(double scale) const {
  double total = 0;
  for (size_t group = 0; group < groups(); ++group)
    total += std::abs(sqr_avg_[group]) + std::max(var_avg_[group], 0.0) / scale;
  return total;
}

bool NoiseScale::Average(const Estimate& estimate, double decay_scale, Sums* to) {
  if (!AllFinite(estimate.sqr) || !AllFinite(estimate.var)) return false;
  const double decay = std::pow(options_.smoothing, skipped_scale_ + decay_scale);
  const double expected = weight() > 0 ? std::accumulate(sqr_avg_.begin(), sqr_avg_.end(), 0.0) : 0;
  const double total = weight() > 0 ? ExpectedTotal(estimate.scale) : 0;
  means_.Decay(decay);
  pairs_.Decay(decay);
  to->Add(1 - decay, estimate);
  if (total > 0) {
    const double estimated = std::accumulate(estimate.sqr.begin(), estimate.sqr.end(), 0.0);
    to->AddSurprise(1 - decay, (estimated - expected) / total);
  }
  ++estimates_;
  skipped_steps_ = 0;
  skipped_scale_ = 0;
  Correct();
  return true;
}

void NoiseScale::Correct() {
  for (size_t group = 0; group < groups(); ++group) {
    sqr_avg_[group] = weight() > 0 ? (means_.sqr[group] + pairs_.sqr[group]) / weight() : 1;
    var_avg_[group] = weight() > 0 ? (means_.var[group] + pairs_.var[group]) / weight() : 0;
  }
}

bool NoiseScale::ScaleChanged(double scale) {
  const bool changed = prev_scale_ > 0 && !Close(scale, prev_scale_);
  if (changed || prev_scale_ == 0) prev_scale_ = scale;
  return changed;
}

double NoiseScale::sqr_avg() const {
  double sum = 0;
  for (const double sqr : sqr_avg_) sum += std::max(sqr, 0.0);
  return sum;
}

double NoiseScale::sqr_bound() const {
  const double mean = std::accumulate(sqr_avg_.begin(), sqr_avg_.end(), 0.0);
  const double weight_square = means_.weight_square + pairs_.weight_square;
  if (!(weight() > 0) || !(weight_square > 0)) return std::max(std::abs(mean), sqr_avg());
  // Estimates of equal weight that would be as certain.
  const double count = weight() * weight() / weight_square;
  double variance = (means_.total_square + pairs_.total_square) / weight();
  if (const double surprises = means_.surprise_weight + pairs_.surprise_weight;
      count > 1.5 && surprises > 0) {
    const double total = ExpectedTotal((means_.scale + pairs_.scale) / weight());
    variance = total * total * (means_.surprise_square + pairs_.surprise_square) / surprises / (count - 1);
  }
  return std::max(std::abs(mean) + 2 * std::sqrt(variance), sqr_avg());
}

double NoiseScale::CertainPart(double part_square_sum, double scale) const {
  if (!(weight() > 0)) return 1;
  const double part = std::min(std::sqrt(std::max(part_square_sum, 0.0) / weight()), 1.0);
  // In a larger batch there is less noise beside it.
  const double noise = (1 - part) * (means_.scale + pairs_.scale) / weight() / scale;
  const double doubt = kDoubtedEstimates / (kDoubtedEstimates + static_cast<double>(estimates_));
  return doubt + (1 - doubt) * (part > 0 ? part / (part + noise) : 0);
}

NoiseScale::Certain NoiseScale::CertainAt(double scale) const {
  Certain certain;
  for (size_t group = 0; group < groups(); ++group) {
    const double total = std::max(sqr_avg_[group] + var_avg_[group] / scale, 1.0);
    const double part = CertainPart(means_.part_square[group] + pairs_.part_square[group], scale);
    certain.sqr.push_back(part * total);
    certain.var.push_back((1 - part) * total * scale);
  }
  return certain;
}

double NoiseScale::var_avg() const {
  double sum = 0;
  for (const double var : var_avg_) sum += std::max(var, kSmallestVar);
  return sum;
}

double NoiseScale::Gain(double scale) const { return adaptdl::Gain(sqr_avg(), var_avg(), scale); }

double NoiseScale::CertainGain(double scale) const {
  const double part = CertainPart(means_.total_part_square + pairs_.total_part_square, scale);
  return part + (1 - part) * scale;
}

std::string NoiseScale::Save() const {
  const auto of = [](const Sums& sums) {
    return nlohmann::json{{"sqr_sum", sums.sqr},
                          {"var_sum", sums.var},
                          {"part_square_sum", sums.part_square},
                          {"square_sum", sums.total_square},
                          {"surprise_square_sum", sums.surprise_square},
                          {"surprise_weight", sums.surprise_weight},
                          {"total_part_square_sum", sums.total_part_square},
                          {"scale_sum", sums.scale},
                          {"weight", sums.weight},
                          {"weight_square_sum", sums.weight_square}};
  };
  nlohmann::json saved = of(means_);
  saved["version"] = kVersion;
  saved["progress"] = progress_;
  saved["prev_scale"] = prev_scale_;
  saved["differenced"] = differenced_;
  saved["pairs"] = of(pairs_);
  saved["estimates"] = estimates_;
  saved["skipped_steps"] = skipped_steps_;
  saved["skipped_scale"] = skipped_scale_;
  return saved.dump();
}

// Older versions did not save how the estimates scatter.
void NoiseScale::Load(const nlohmann::json& saved, Sums* sums) {
  sums->sqr = FiniteNumbers(saved.at("sqr_sum"));
  sums->var = FiniteNumbers(saved.at("var_sum"));
  sums->weight = FiniteAtLeast0(saved.at("weight"));
  if (saved.contains("square_sum")) {
    sums->total_square = FiniteAtLeast0(saved.at("square_sum"));
    sums->weight_square = FiniteAtLeast0(saved.at("weight_square_sum"));
  }
  // Older versions did not save these: the next estimates tell.
  if (saved.contains("surprise_square_sum")) {
    sums->surprise_square = FiniteAtLeast0(saved.at("surprise_square_sum"));
    sums->surprise_weight = FiniteAtLeast0(saved.at("surprise_weight"));
  }
  // As if gradients had no noise.
  sums->part_square.assign(sums->sqr.size(), sums->weight);
  sums->total_part_square = sums->scale = sums->weight;
  if (saved.contains("part_square_sum")) {
    sums->part_square = FiniteNumbers(saved.at("part_square_sum"));
    sums->total_part_square = FiniteAtLeast0(saved.at("total_part_square_sum"));
    sums->scale = FiniteAtLeast0(saved.at("scale_sum"));
  }
  if (sums->sqr.size() != sums->var.size() || sums->sqr.size() != sums->part_square.size()) {
    throw std::invalid_argument("averages are missing");
  }
  constexpr double kLeastWeight = 1e-300;
  if (sums->weight > 0 && sums->weight < kLeastWeight) {
    throw std::invalid_argument("the weight is too small");
  }
}

absl::Status NoiseScale::Load(const std::string& text) {
  NoiseScale loaded(options_);
  try {
    const nlohmann::json saved = nlohmann::json::parse(text);
    if (saved.at("version") != kVersion) throw std::invalid_argument("it is of an unknown version");
    loaded.progress_ = FiniteAtLeast0(saved.at("progress"));
    loaded.prev_scale_ = FiniteAtLeast0(saved.at("prev_scale"));
    loaded.differenced_ = saved.at("differenced").get<bool>();
    // Older versions kept both kinds in one.
    Load(saved, loaded.differenced_ && !saved.contains("pairs") ? &loaded.pairs_ : &loaded.means_);
    if (saved.contains("pairs")) Load(saved.at("pairs"), &loaded.pairs_);
    if (saved.contains("estimates")) loaded.estimates_ = CountAtLeast0(saved.at("estimates"));
    loaded.skipped_steps_ = CountAtLeast0(saved.at("skipped_steps"));
    loaded.skipped_scale_ = FiniteAtLeast0(saved.at("skipped_scale"));
    // But for rounding.
    if (loaded.weight() > 1 + 1e-9) throw std::invalid_argument("the weight exceeds 1");
  } catch (const std::exception& error) {
    return absl::DataLossError(absl::StrCat("the saved gradient statistics cannot be read: ", error.what()));
  }
  for (const Sums* sums : {&loaded.means_, &loaded.pairs_}) {
    if (sums->sqr.size() == groups()) continue;
    return absl::FailedPreconditionError(absl::StrCat("the saved gradient statistics are of ",
                                                      sums->sqr.size(),
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
