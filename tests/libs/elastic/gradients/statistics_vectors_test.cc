// The reference's gradient statistics and scaling rules, from explicit gradients through the kernels of a CPU, and
// of a device that the host cannot touch.

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "adaptdl/scaling_rule.h"
#include "gtest/gtest.h"
#include "libs/device/device.h"
#include "libs/device/gradient_kernels.h"
#include "libs/device/tensor_pass.h"
#include "libs/elastic/gradients/noise_scale.h"
#include "nlohmann/json.hpp"
#include "tests/libs/device/device_memory.h"
#include "tests/libs/elastic/device_kinds.h"
#include "tests/vectors/vectors.h"

namespace adaptdl::elastic {
namespace {

using device::AdamPreconditioner;
using device::DeviceNumbers;
using device::PairSums;
using device::Preconditioner;
using device::TensorPass;

using nlohmann::json;

// One array for each parameter group.
using Gradient = std::vector<std::vector<float>>;

// JSON has no NaN.
float Number(const json& value) {
  if (value.is_number()) return value.get<float>();
  return value == "nan" ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity();
}

// Parameters of a group one after the other.
void AddNumbers(const json& value, float factor, std::vector<float>* to) {
  if (!value.is_array()) {
    to->push_back(factor * Number(value));
    return;
  }
  for (const json& element : value) AddNumbers(element, factor, to);
}

Gradient GradientFrom(const json& groups, float factor = 1) {
  Gradient gradient;
  for (const json& group : groups) AddNumbers(group, factor, &gradient.emplace_back());
  return gradient;
}

void AddTo(const Gradient& from, Gradient* sum) {
  if (sum->empty()) {
    *sum = from;
    return;
  }
  for (size_t group = 0; group < from.size(); ++group) {
    for (size_t i = 0; i < from[group].size(); ++i) (*sum)[group][i] += from[group][i];
  }
}

// Adam's second moments of one group, when they count.
struct Adam {
  std::vector<float> exp_avg_sq;
  Preconditioner preconditioner;
};

struct Step {
  // By micro-batch, then replica.
  std::vector<std::vector<Gradient>> gradients = {};
  double accum_scale = 1;
  double loss_scale = 1;
  std::optional<Adam> adam = {};
};

// Takes steps as a training program does.
class Trainer {
 public:
  Trainer(device::Device& device, size_t groups) : device_(device), noise_({.groups = groups}) {}

  NoiseScale& noise() { return noise_; }
  const Gradient& mean() const { return mean_; }

  void Take(const Step& step) {
    const size_t replicas = step.gradients.front().size();
    std::vector<double> local(noise_.groups(), 0);
    mean_.clear();
    for (size_t replica = 0; replica < replicas; ++replica) {
      Accumulation accumulation(noise_.groups());
      accumulation.SetBatchScale(step.accum_scale);
      for (const auto& micro_batch : step.gradients) {
        AddTo(micro_batch[replica], &mean_);
        accumulation.Add(Norms(micro_batch[replica], step.adam), 1, step.loss_scale);
      }
      for (size_t group = 0; group < local.size(); ++group) local[group] += accumulation.local_sqr()[group];
    }
    const auto count = static_cast<int64_t>(replicas * step.gradients.size());
    scale_ = step.accum_scale * static_cast<double>(step.gradients.size());
    moments_reset_ = noise_.ScaleChanged(scale_);
    const std::vector<PairSums> sums = Average(1 / static_cast<double>(count), step.adam);
    Update(count, local, sums, step.loss_scale);
  }

  double scale() const { return scale_; }
  bool moments_reset() const { return moments_reset_; }

 private:
  // Runs a pass over `gradient`, scaled by `factor`, with all of them in the device's memory.
  PairSums Run(double factor, std::vector<float>* gradient, const std::vector<float>* previous,
               const std::optional<Adam>& adam) {
    const auto on_device = [&](const std::vector<float>& numbers) {
      return DeviceNumbers(device_, {numbers.begin(), numbers.end()}, device::DataType::kFloat32);
    };
    const DeviceNumbers sums(device_, {0, 0, 0});
    const DeviceNumbers source = on_device(*gradient);
    const DeviceNumbers before = on_device(previous == nullptr ? std::vector<float>() : *previous);
    const DeviceNumbers moments = on_device(adam ? adam->exp_avg_sq : std::vector<float>());
    TensorPass pass{
        .source = source.data(), .count = static_cast<int64_t>(gradient->size()), .factor = factor};
    pass.target = source.data();
    pass.sum = 0;
    if (previous != nullptr) pass.previous = before.data();
    if (adam) {
      pass.exp_avg_sq = moments.data();
      pass.preconditioner = adam->preconditioner;
    }
    EXPECT_TRUE(device_.Run({&pass, 1}, sums.doubles(), nullptr).ok());
    const std::vector<double> scaled = source.Get();
    gradient->assign(scaled.begin(), scaled.end());
    const std::vector<double> found = sums.Get();
    return {found[0], found[1], found[2]};
  }

  std::vector<double> Norms(Gradient gradient, const std::optional<Adam>& adam) {
    std::vector<double> norms;
    for (std::vector<float>& group : gradient) norms.push_back(Run(1, &group, nullptr, adam).current);
    return norms;
  }

  std::vector<PairSums> Average(double factor, const std::optional<Adam>& adam) {
    std::vector<PairSums> sums;
    for (size_t group = 0; group < mean_.size(); ++group) {
      sums.push_back(Run(factor, &mean_[group], previous_.empty() ? nullptr : &previous_[group], adam));
    }
    return sums;
  }

  void Update(int64_t count, const std::vector<double>& local, const std::vector<PairSums>& sums,
              double loss_scale) {
    const NoiseScale::Plan plan = noise_.PlanStep(count, !previous_.empty());
    std::vector<double> total;
    std::vector<double> previous;
    std::vector<double> dot;
    for (const PairSums& group : sums) {
      total.push_back(group.current);
      previous.push_back(group.previous);
      dot.push_back(group.dot);
    }
    StepNorms norms = {.count = count,
                       .scale = scale_,
                       .local_sqr = local,
                       .total_sqr = total,
                       .loss_scale = loss_scale,
                       .previous_loss_scale = loss_scale};
    if (plan.compare) {
      norms.previous_sqr = previous;
      norms.previous_dot = dot;
    }
    if (noise_.Update(norms) == NoiseScale::Outcome::kNotFinite) return;
    previous_ = plan.keep ? mean_ : Gradient();
  }

  device::Device& device_;
  NoiseScale noise_;
  Gradient mean_;
  Gradient previous_;
  double scale_ = 0;
  bool moments_reset_ = false;
};

void ExpectNear(double actual, double expected, double relative) {
  EXPECT_NEAR(actual, expected, relative * std::max(1.0, std::abs(expected)));
}

void ExpectState(const NoiseScale& noise, const json& after, double relative) {
  for (size_t group = 0; group < noise.groups(); ++group) {
    ExpectNear(noise.raw_sqr_avg()[group], after["sqr_avg_raw"][group], relative);
    ExpectNear(noise.raw_var_avg()[group], after["var_avg_raw"][group], relative);
  }
  ExpectNear(noise.weight(), after["sqr_unbias"].is_null() ? 0 : after["sqr_unbias"].get<double>(), 1e-12);
  EXPECT_EQ(noise.differenced(), after["biased"].get<bool>());
  ExpectNear(noise.sqr_avg(), after["sqr_avg"], relative);
  ExpectNear(noise.var_avg(), after["var_avg"], relative);
  ExpectNear(noise.Gain(2), after["gain_2"], relative);
  ExpectNear(noise.Gain(8), after["gain_8"], relative);
}

Step StepFrom(const json& step, double loss_scale) {
  Step read = {.accum_scale = step["accum_scale"], .loss_scale = loss_scale};
  const bool replicated = step.contains("micro_batches_by_replica");
  for (const json& micro_batch : step[replicated ? "micro_batches_by_replica" : "micro_batches"]) {
    auto& gradients = read.gradients.emplace_back();
    const auto factor = static_cast<float>(loss_scale);
    if (!replicated) {
      gradients.push_back(GradientFrom(micro_batch, factor));
      continue;
    }
    for (const json& replica : micro_batch) gradients.push_back(GradientFrom(replica, factor));
  }
  return read;
}

class StatisticsVectors : public testing::TestWithParam<DeviceKind> {
 protected:
  device::Device& device_ = MakeDevice(GetParam());
};

TEST_P(StatisticsVectors, NoiseScaleIsTheReferences) {
  const json vectors = ReadVectors("gns.json");
  for (const json& sequence : vectors["cases"]) {
    SCOPED_TRACE(sequence["name"].get<std::string>());
    Trainer trainer(device_, sequence["steps"][0]["after"]["sqr_avg_raw"].size());
    for (const json& step : sequence["steps"]) {
      SCOPED_TRACE(&step - &sequence["steps"][0]);
      trainer.Take(StepFrom(step, sequence.value("mp_scale", 1.0)));
      ExpectState(trainer.noise(), step["after"], 1e-6);
    }
  }
}

TEST_P(StatisticsVectors, PreconditionedNoiseScaleIsTheReferences) {
  const json vectors = ReadVectors("gns_adam.json");
  Trainer trainer(device_, 1);
  for (const json& step : vectors["steps"]) {
    Step read;
    for (const json& micro_batch : step["micro_batches"]) {
      read.gradients.push_back({GradientFrom(json::array({micro_batch}))});
    }
    auto preconditioner = AdamPreconditioner(step["adam_step_before"].get<int64_t>(), .999, 1e-8);
    if (preconditioner) {
      // The reference takes the power in float32, which leaves few digits of what is so close to 1.
      const float power = std::pow(.999F, step["adam_step_before"].get<float>());
      ExpectNear(preconditioner->root_factor, 1 / std::sqrt(1 - power), 1e-5);
      preconditioner->root_factor = 1 / std::sqrt(1 - power);
      read.adam = {step["exp_avg_sq_before"].get<std::vector<float>>(), *preconditioner};
    }
    trainer.Take(read);
    ExpectState(trainer.noise(), step["after"], 1e-6);
    EXPECT_EQ(trainer.noise().prev_scale(), step["prev_scale"].get<double>());
    EXPECT_FALSE(trainer.moments_reset());
  }
}

void ExpectFactors(ScalingRule& rule, const StepContext& step, const json& expected) {
  const std::vector<double> factors = rule.Factors(step);
  ASSERT_EQ(factors.size(), step.sqr.size());
  for (size_t group = 0; group < factors.size(); ++group) {
    ExpectNear(factors[group], expected.is_array() ? expected[group] : expected, 1e-12);
  }
}

TEST(ScalingRuleVectors, FactorsAreTheReferences) {
  const json vectors = ReadVectors("scaling_rules.json");
  for (const json& row : vectors["gain"]) {
    const StepContext step = {.scale = row["scale"], .sqr = row["sqr_avg"], .var = row["var_avg"]};
    ExpectNear(Gain(row["sqr"], row["var"], step.scale), row["gain"], 1e-12);
    AdaScale ada;
    ExpectFactors(ada, step, row["adascale_lr"]);
    AdamScale adam;
    ExpectFactors(adam, step, row["adamscale_lr"]);
    LinearScale linear;
    ExpectFactors(linear, step, row["linear"]);
    SqrtScale sqrt;
    ExpectFactors(sqrt, step, row["sqrt"]);
  }
  for (const json& row : vectors["legw"]) {
    LEGW legw(row["base_warmup_epochs"], row["data_size"]);
    ExpectFactors(legw,
                  {.scale = row["scale"],
                   .sqr = {1, 1},
                   .var = {0, 0},
                   .progress = row["progress"],
                   .init_batch_size = row["batch_size"]},
                  row["lr_factor"]);
  }
}

TEST_P(StatisticsVectors, AdaScaleTrainsAsTheReferenceDoes) {
  const json vectors = ReadVectors("scaling_rules.json");
  Trainer trainer(device_, 2);
  AdaScale rule;
  std::vector<std::vector<double>> parameters = {{0, 0}, {0, 0}};
  for (const json& row : vectors["adascale_sgd_sequence"]) {
    Step step = {.accum_scale = 2};
    for (const json& micro_batch : row["micro_batches"]) {
      step.gradients.push_back({GradientFrom(micro_batch)});
    }
    trainer.Take(step);
    ASSERT_EQ(trainer.scale(), row["scale"].get<double>());
    const std::vector<double> factors = rule.Factors({.scale = trainer.scale(),
                                                      .sqr = trainer.noise().raw_sqr_avg(),
                                                      .var = trainer.noise().raw_var_avg()});
    trainer.noise().Advance(trainer.noise().Gain(trainer.scale()));
    for (size_t group = 0; group < 2; ++group) {
      for (size_t i = 0; i < 2; ++i) {
        parameters[group][i] -= .1 * factors[group] * trainer.mean()[group][i];
        ExpectNear(parameters[group][i], row["params"][group][i], 1e-6);
      }
    }
    ExpectNear(trainer.noise().progress(), row["progress"], 1e-6);
    ExpectState(trainer.noise(), row["after"], 1e-6);
  }
}

INSTANTIATE_TEST_SUITE_P(On, StatisticsVectors, testing::ValuesIn(DeviceKinds()),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace adaptdl::elastic
