#include "simulator/traces/training_curve.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "simulator/traces/csv.h"

namespace adaptdl::simulator {
namespace {

// The arithmetic of the published simulators, so that results agree to the last bit.
double Interpolate(int64_t x, int64_t x_low, int64_t x_high, double low, double high) {
  if (x_low == x_high) {
    return low;
  }
  return (static_cast<double>(x - x_low) * high + static_cast<double>(x_high - x) * low) /
         static_cast<double>(x_high - x_low);
}

}  // namespace

absl::StatusOr<TrainingCurve::Run> TrainingCurve::LoadRun(const std::string& path, int64_t batch_size) {
  absl::StatusOr<CsvTable> table = CsvTable::Read(path, {"progress", "iteration", "grad_sqr", "grad_var"});
  if (!table.ok()) {
    return table.status();
  }
  Run run{batch_size, {}};
  for (size_t row = 0; row < table->rows(); ++row) {
    double values[4];
    for (size_t column = 0; column < 4; ++column) {
      absl::StatusOr<double> value = table->Number(row, column);
      if (!value.ok()) {
        return value.status();
      }
      values[column] = *value;
    }
    run.epochs.push_back({values[0], values[1], values[2], values[3]});
  }
  return run;
}

absl::StatusOr<TrainingCurve> TrainingCurve::Load(const std::string& folder) {
  TrainingCurve curve;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string file = entry.path().filename().string();
    absl::string_view name = file;
    int64_t batch_size = 0;
    if (!absl::ConsumePrefix(&name, "validation-") || !absl::ConsumeSuffix(&name, ".csv") ||
        !absl::SimpleAtoi(name, &batch_size)) {
      continue;
    }
    absl::StatusOr<Run> run = LoadRun(entry.path().string(), batch_size);
    if (!run.ok()) {
      return run.status();
    }
    curve.runs_.push_back(*std::move(run));
  }
  if (curve.runs_.empty()) {
    return absl::NotFoundError(absl::StrCat(folder, ": no validation-<batch size>.csv"));
  }
  std::sort(curve.runs_.begin(), curve.runs_.end(),
            [](const Run& a, const Run& b) { return a.batch_size < b.batch_size; });
  const size_t epochs = curve.runs_.front().epochs.size();
  for (const Run& run : curve.runs_) {
    if (run.epochs.empty() || run.epochs.size() != epochs) {
      return absl::InvalidArgumentError(absl::StrCat(
          folder, ": validation-", run.batch_size, ".csv has ", run.epochs.size(), " epochs, validation-",
          curve.runs_.front().batch_size, ".csv has ", epochs, "; all must have the same, at least 1"));
    }
  }
  for (size_t epoch = 0; epoch < epochs; ++epoch) {
    double least = curve.runs_.front().epochs[epoch].progress;
    for (const Run& run : curve.runs_) {
      least = std::min(least, run.epochs[epoch].progress);
    }
    curve.progress_after_.push_back(least);
  }
  return curve;
}

TrainingCurve TrainingCurve::Constant(const goodput::GradParams& gradient, int64_t init_batch_size,
                                      int64_t max_batch_size, double steps) {
  TrainingCurve curve;
  curve.constant_ = true;
  curve.progress_after_ = {steps};
  for (const int64_t batch_size : {init_batch_size, max_batch_size}) {
    const double scale = static_cast<double>(batch_size) / static_cast<double>(init_batch_size);
    const double both = gradient.var + gradient.sqr;
    const double gain = both > 0 ? both / (gradient.var / scale + gradient.sqr) : 1;
    curve.runs_.push_back({batch_size, {{steps, steps / gain, gradient.sqr, gradient.var}}});
  }
  return curve;
}

TrainingCurve TrainingCurve::Shortened(double times) const {
  TrainingCurve curve = *this;
  for (Run& run : curve.runs_) {
    for (Epoch& epoch : run.epochs) {
      epoch.progress /= times;
      epoch.iteration /= times;
    }
  }
  for (double& progress : curve.progress_after_) progress /= times;
  return curve;
}

TrainingCurve::Bracket TrainingCurve::Find(int64_t batch_size) const {
  size_t high = 0;
  while (high + 1 < runs_.size() && runs_[high].batch_size < batch_size) {
    ++high;
  }
  const size_t low = runs_[high].batch_size == batch_size || high == 0 ? high : high - 1;
  return {runs_[low], runs_[high]};
}

goodput::GradParams TrainingCurve::Gradient(int64_t batch_size, int epoch) const {
  const Bracket runs = Find(batch_size);
  const Epoch& low = runs.low.epochs[epoch];
  const Epoch& high = runs.high.epochs[epoch];
  const auto at = [&](double a, double b) {
    return Interpolate(batch_size, runs.low.batch_size, runs.high.batch_size, a, b);
  };
  return {at(low.gradient_sqr, high.gradient_sqr), at(low.gradient_var, high.gradient_var)};
}

double TrainingCurve::Iterations(int64_t batch_size, int epoch) const {
  const Bracket runs = Find(batch_size);
  return Interpolate(batch_size, runs.low.batch_size, runs.high.batch_size, runs.low.epochs[epoch].iteration,
                     runs.high.epochs[epoch].iteration);
}

}  // namespace adaptdl::simulator
