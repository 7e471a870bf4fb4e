// What the wrapper makes of gradients: averages over replicas and micro-batches, statistics, loss scaling.

#include <atomic>
#include <cmath>
#include <memory>
#include <mutex>
#include <random>
#include <vector>

#include "adaptdl/data_parallel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/elastic/gradients/noise_scale.h"
#include "tests/libs/elastic/replica_threads.h"
#include "torch/nn/functional.h"
#include "torch/nn/modules/batchnorm.h"
#include "torch/nn/modules/container/sequential.h"
#include "torch/nn/modules/embedding.h"
#include "torch/nn/modules/linear.h"
#include "torch/nn/utils/clip_grad.h"
#include "torch/optim/adam.h"
#include "torch/optim/sgd.h"
#include "torch/utils.h"

namespace adaptdl::elastic {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kInputs = 6;

torch::Tensor Numbers(std::vector<int64_t> shape, int seed) {
  torch::Tensor numbers = torch::empty(shape, torch::kDouble);
  std::mt19937 random(seed);
  for (int64_t i = 0; i < numbers.numel(); ++i) numbers.data_ptr<double>()[i] = random() / 4294967296.0 - 0.5;
  return numbers.to(torch::kFloat);
}

// The same parameters every time.
torch::nn::Sequential MakeModel() {
  torch::nn::Sequential model(torch::nn::Linear(kInputs, 4), torch::nn::Linear(4, 1));
  torch::NoGradGuard no_gradients;
  int seed = 100;
  for (torch::Tensor& parameter : model->parameters())
    parameter.copy_(Numbers(parameter.sizes().vec(), seed++));
  return model;
}

struct Samples {
  torch::Tensor inputs = Numbers({32, kInputs}, 1);
  torch::Tensor targets = Numbers({32, 1}, 2);
};

torch::Tensor LossOf(torch::nn::Sequential& model, const Samples& samples, int64_t begin, int64_t count) {
  return torch::mse_loss(model->forward(samples.inputs.narrow(0, begin, count)),
                         samples.targets.narrow(0, begin, count));
}

std::vector<torch::Tensor> GradientsOf(torch::nn::Sequential& model) {
  std::vector<torch::Tensor> gradients;
  for (const torch::Tensor& parameter : model->parameters()) gradients.push_back(parameter.grad().clone());
  return gradients;
}

double SquaredNorm(const std::vector<torch::Tensor>& tensors) {
  double sum = 0;
  for (const torch::Tensor& tensor : tensors) sum += tensor.to(torch::kDouble).pow(2).sum().item<double>();
  return sum;
}

double Dot(const std::vector<torch::Tensor>& a, const std::vector<torch::Tensor>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i)
    sum += (a[i].to(torch::kDouble) * b[i].to(torch::kDouble)).sum().item<double>();
  return sum;
}

// Gradients of the mean loss over these samples.
std::vector<torch::Tensor> PlainGradients(const Samples& samples, int64_t begin, int64_t count) {
  torch::nn::Sequential model = MakeModel();
  LossOf(model, samples, begin, count).backward();
  return GradientsOf(model);
}

void ExpectEqual(const std::vector<torch::Tensor>& actual, const std::vector<torch::Tensor>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    EXPECT_TRUE(torch::allclose(actual[i], expected[i], 1e-5, 1e-7)) << "parameter " << i;
  }
}

// Takes one step over samples [0, sum of sizes), dealt out as sizes[rank][micro-batch].
void OneStep(Replica& replica, AdaptiveDataParallel& parallel, torch::nn::Sequential& model,
             const Samples& samples, const std::vector<std::vector<int64_t>>& sizes) {
  int64_t total = 0;
  int64_t begin = 0;
  for (size_t rank = 0; rank < sizes.size(); ++rank) {
    for (int64_t size : sizes[rank]) {
      total += size;
      if (rank < static_cast<size_t>(replica.job.rank())) begin += size;
    }
  }
  const std::vector<int64_t>& mine = sizes[static_cast<size_t>(replica.job.rank())];
  for (size_t k = 0; k < mine.size(); ++k) {
    replica.job.core().step().SetMicroBatch({.local = mine[k],
                                             .step_total = total,
                                             .last = k + 1 == mine.size(),
                                             .scale = 2,
                                             .initial_batch_size = total / 2});
    parallel.ZeroGrad();
    if (mine[k] > 0) {
      LossOf(model, samples, begin, mine[k]).backward();
    } else {
      (LossOf(model, samples, 0, 1) * std::nanf("")).backward();
    }
    begin += mine[k];
    parallel.Step();
  }
}

class Shares : public ::testing::TestWithParam<std::vector<std::vector<int64_t>>> {};

TEST_P(Shares, AverageToTheWholeBatch) {
  const std::vector<std::vector<int64_t>>& sizes = GetParam();
  const Samples samples;
  int64_t total = 0;
  double local = 0;
  int64_t count = 0;
  for (const auto& replica : sizes) {
    for (int64_t size : replica) {
      if (size > 0) {
        local += static_cast<double>(size) * SquaredNorm(PlainGradients(samples, total, size));
        ++count;
      }
      total += size;
    }
  }
  const std::vector<torch::Tensor> expected = PlainGradients(samples, 0, total);
  // The estimate that the definition gives.
  NoiseScale noise({.groups = 1});
  const std::vector<double> local_sqr = {local / static_cast<double>(total)};
  const std::vector<double> total_sqr = {SquaredNorm(expected)};
  if (count > 1) {
    noise.Update(
        {.count = count, .scale = 2, .local_sqr = local_sqr, .local_weight = 1, .total_sqr = total_sqr});
  }
  for (int64_t bucket_bytes : {int64_t{1}, int64_t{40}, int64_t{1} << 20}) {
    for (bool overlap : {true, false}) {
      RunReplicas(static_cast<int>(sizes.size()), {}, [&](Replica& replica) {
        torch::nn::Sequential model = MakeModel();
        torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.0));
        AdaptiveDataParallel parallel(
            replica.job, *model, optimizer,
            {.bucket_bytes = bucket_bytes, .overlap = overlap, .statistics_period = 1});
        OneStep(replica, parallel, model, samples, sizes);
        ExpectEqual(GradientsOf(model), expected);
        EXPECT_NEAR(parallel.SqrAvg(), noise.sqr_avg(), 1e-5 * std::abs(noise.sqr_avg()));
        EXPECT_NEAR(parallel.VarAvg(), noise.var_avg(), 1e-5 * std::abs(noise.var_avg()));
        EXPECT_DOUBLE_EQ(parallel.Progress(), parallel.Gain());
        EXPECT_DOUBLE_EQ(replica.job.core().progress().scale_invariant_steps(), parallel.Gain());
      });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dealt, Shares,
                         ::testing::Values(std::vector<std::vector<int64_t>>{{8}},
                                           std::vector<std::vector<int64_t>>{{4, 4}},
                                           std::vector<std::vector<int64_t>>{{5, 2, 1}},
                                           std::vector<std::vector<int64_t>>{{4}, {4}},
                                           std::vector<std::vector<int64_t>>{{3}, {3}, {2}},
                                           std::vector<std::vector<int64_t>>{{2}, {2}, {2}, {2}},
                                           std::vector<std::vector<int64_t>>{{3, 1}, {2, 2}},
                                           std::vector<std::vector<int64_t>>{{3, 2}, {3}},
                                           std::vector<std::vector<int64_t>>{{1, 1}, {0, 6}, {2, 0}},
                                           std::vector<std::vector<int64_t>>{{1}, {1}, {0}}));

// A single replica compares the gradients of steps in a row. SGD(0) leaves the model as it is.
std::pair<double, double> EstimateOfPairs(
    const std::function<void(AdaptiveDataParallel&, torch::optim::Optimizer&)>& clear,
    const std::function<void(torch::nn::Sequential&)>& after_backward) {
  const Samples samples;
  std::pair<double, double> estimate;
  RunReplicas(1, {}, [&](Replica& replica) {
    torch::nn::Sequential model = MakeModel();
    torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.0));
    AdaptiveDataParallel parallel(replica.job, *model, optimizer, {.statistics_period = 1});
    for (int64_t step = 0; step < 4; ++step) {
      replica.job.core().step().SetMicroBatch({.local = 8, .step_total = 8, .initial_batch_size = 8});
      clear(parallel, optimizer);
      LossOf(model, samples, 8 * step, 8).backward();
      after_backward(model);
      parallel.Step();
    }
    estimate = {parallel.SqrAvg(), parallel.VarAvg()};
  });
  return estimate;
}

NoiseScale ExpectedOfPairs(int64_t first_pair) {
  const Samples samples;
  NoiseScale noise({.groups = 1});
  for (int64_t step = first_pair; step < 4; ++step) {
    const auto previous = PlainGradients(samples, 8 * (step - 1), 8);
    const auto current = PlainGradients(samples, 8 * step, 8);
    const std::vector<double> total = {SquaredNorm(current)};
    const std::vector<double> before = {SquaredNorm(previous)};
    const std::vector<double> dot = {Dot(previous, current)};
    noise.Update({.count = 1, .scale = 1, .total_sqr = total, .previous_sqr = before, .previous_dot = dot});
  }
  return noise;
}

TEST(DifferencedEstimator, ComparesStepsInARow) {
  const NoiseScale expected = ExpectedOfPairs(1);
  const auto [sqr, var] = EstimateOfPairs([](auto& parallel, auto&) { parallel.ZeroGrad(); }, [](auto&) {});
  EXPECT_NEAR(sqr, expected.sqr_avg(), 1e-5 * expected.sqr_avg());
  EXPECT_NEAR(var, expected.var_avg(), 1e-5 * expected.var_avg());
}

// The first pair is lost, as that is how it is found out.
TEST(DifferencedEstimator, CopesWithGradientsThatAreZeroedInPlace) {
  const NoiseScale expected = ExpectedOfPairs(2);
  const auto [sqr, var] =
      EstimateOfPairs([](auto&, auto& optimizer) { optimizer.zero_grad(); }, [](auto&) {});
  EXPECT_NEAR(sqr, expected.sqr_avg(), 1e-5 * expected.sqr_avg());
  EXPECT_NEAR(var, expected.var_avg(), 1e-5 * expected.var_avg());
}

TEST(DifferencedEstimator, SeesGradientsAsTheyWereBeforeTheyAreClipped) {
  const NoiseScale expected = ExpectedOfPairs(2);
  const auto [sqr, var] =
      EstimateOfPairs([](auto& parallel, auto&) { parallel.ZeroGrad(); },
                      [](auto& model) { torch::nn::utils::clip_grad_norm_(model->parameters(), 1e-3); });
  EXPECT_NEAR(sqr, expected.sqr_avg(), 1e-5 * expected.sqr_avg());
  EXPECT_NEAR(var, expected.var_avg(), 1e-5 * expected.var_avg());
}

TEST(AdaptiveDataParallel, GradientsAreAveragedWhenBackwardReturns) {
  const Samples samples;
  const std::vector<torch::Tensor> expected = PlainGradients(samples, 0, 8);
  RunReplicas(2, {}, [&](Replica& replica) {
    torch::nn::Sequential model = MakeModel();
    torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1));
    AdaptiveDataParallel parallel(replica.job, *model, optimizer);
    replica.job.core().step().SetMicroBatch({.local = 4, .step_total = 8, .initial_batch_size = 8});
    LossOf(model, samples, 4 * replica.job.rank(), 4).backward();
    ExpectEqual(GradientsOf(model), expected);
    parallel.Step();
  });
}

TEST(AdaptiveDataParallel, RefusesASecondBackwardInAStep) {
  const Samples samples;
  EXPECT_THAT(RunReplicas(1, {},
                          [&](Replica& replica) {
                            torch::nn::Sequential model = MakeModel();
                            torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1));
                            AdaptiveDataParallel parallel(replica.job, *model, optimizer);
                            LossOf(model, samples, 0, 8).backward();
                            LossOf(model, samples, 8, 8).backward();
                            parallel.Step();
                          }),
              ElementsAre(1));
}

TEST(AdaptiveDataParallel, RefusesToLoseGradientsBetweenMicroBatches) {
  const Samples samples;
  EXPECT_THAT(
      RunReplicas(1, {},
                  [&](Replica& replica) {
                    torch::nn::Sequential model = MakeModel();
                    torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1));
                    AdaptiveDataParallel parallel(replica.job, *model, optimizer);
                    for (bool last : {false, true}) {
                      replica.job.core().step().SetMicroBatch({.local = 4, .step_total = 8, .last = last});
                      optimizer.zero_grad();
                      LossOf(model, samples, 0, 4).backward();
                      parallel.Step();
                    }
                  }),
      ElementsAre(1));
}

TEST(AdaptiveDataParallel, RefusesSparseGradients) {
  for (int replicas : {1, 2}) {
    const std::vector<int> codes = RunReplicas(replicas, {}, [&](Replica& replica) {
      torch::nn::Embedding model(torch::nn::EmbeddingOptions(4, 2).sparse(true));
      torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1));
      AdaptiveDataParallel parallel(replica.job, *model, optimizer);
      model->forward(torch::tensor({1, 2})).sum().backward();
      parallel.Step();
    });
    EXPECT_EQ(codes, std::vector<int>(static_cast<size_t>(replicas), 1));
  }
}

// The step begins anew after its first micro-batch, cut otherwise.
TEST(AdaptiveDataParallel, AStepThatBeginsAnewForgetsItsFirstAttempt) {
  const Samples samples;
  const std::vector<torch::Tensor> expected = PlainGradients(samples, 0, 8);
  for (bool inside_backward : {false, true}) {
    RunReplicas(1, {}, [&](Replica& replica) {
      torch::nn::Sequential model = MakeModel();
      torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.0));
      AdaptiveDataParallel parallel(replica.job, *model, optimizer);
      MicroBatch batch = {.local = 4, .step_total = 8, .last = false, .initial_batch_size = 8};
      replica.job.core().step().SetMicroBatch(batch);
      LossOf(model, samples, 8, 4).backward();
      if (inside_backward) {
        torch::Tensor hidden =
            model->ptr(0)->as<torch::nn::Linear>()->forward(samples.inputs.narrow(0, 0, 4));
        hidden.register_hook(
            [](torch::Tensor) -> torch::Tensor { throw std::runtime_error("out of memory"); });
        EXPECT_THROW(model->ptr(1)->as<torch::nn::Linear>()->forward(hidden).sum().backward(),
                     std::exception);
      }
      batch.attempt = 1;
      batch.local = 2;
      for (int64_t k = 0; k < 4; ++k) {
        batch.last = k == 3;
        replica.job.core().step().SetMicroBatch(batch);
        parallel.ZeroGrad();
        LossOf(model, samples, 2 * k, 2).backward();
        parallel.Step();
      }
      ExpectEqual(GradientsOf(model), expected);
    });
  }
}

TEST(AdaptiveDataParallel, AveragesBuffersBySamples) {
  RunReplicas(3, {}, [&](Replica& replica) {
    torch::nn::BatchNorm1d model(torch::nn::BatchNorm1dOptions(1).momentum(1.0));
    torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.0));
    AdaptiveDataParallel parallel(replica.job, *model, optimizer);
    const int64_t samples[] = {6, 2, 0};
    const double values[] = {1, 5, std::nan("")};
    const int rank = replica.job.rank();
    replica.job.core().step().SetMicroBatch(
        {.local = samples[rank], .step_total = 8, .initial_batch_size = 8});
    model->forward(torch::full({4, 1}, values[rank])).sum().backward();
    parallel.Step();
    EXPECT_NEAR(model->running_mean.item<double>(), (6 * 1 + 2 * 5) / 8.0, 1e-6);
    EXPECT_EQ(model->num_batches_tracked.item<int64_t>(), 1);
  });
}

TEST(AdaptiveDataParallel, TheRuleScalesEachGroupsRateForTheStepOnly) {
  class Thirds final : public ScalingRule {
   public:
    std::string name() const override { return "thirds"; }
    std::vector<double> Factors(const StepContext& step) override {
      EXPECT_EQ(step.scale, 3);
      EXPECT_EQ(step.init_batch_size, 8);
      return {1.0 / 3, 2.0 / 3};
    }
  };
  RunReplicas(1, {}, [&](Replica& replica) {
    torch::nn::Sequential model = MakeModel();
    std::vector<torch::optim::OptimizerParamGroup> groups;
    groups.emplace_back(model->ptr(0)->parameters());
    groups.emplace_back(model->ptr(1)->parameters());
    torch::optim::SGD optimizer(groups, torch::optim::SGDOptions(0.3));
    AdaptiveDataParallel parallel(replica.job, *model, optimizer,
                                  {.scaling_rule = std::make_shared<Thirds>()});
    replica.job.core().step().SetMicroBatch(
        {.local = 24, .step_total = 24, .scale = 3, .initial_batch_size = 8});
    std::vector<torch::Tensor> before;
    for (const torch::Tensor& parameter : model->parameters()) before.push_back(parameter.detach().clone());
    LossOf(model, Samples(), 0, 24).backward();
    const std::vector<torch::Tensor> gradients = GradientsOf(model);
    parallel.Step();
    for (size_t i = 0; i < before.size(); ++i) {
      const double rate = i < 2 ? 0.1 : 0.2;
      EXPECT_TRUE(torch::allclose(model->parameters()[i], before[i] - rate * gradients[i], 1e-5, 1e-7));
    }
    for (const auto& group : optimizer.param_groups()) EXPECT_EQ(group.options().get_lr(), 0.3);
    EXPECT_DOUBLE_EQ(parallel.LearningRateFactor(), 0.5);
  });
}

TEST(AdaptiveDataParallel, RefusesFactorsThatAreNone) {
  class Bad final : public ScalingRule {
   public:
    std::string name() const override { return "bad"; }
    std::vector<double> Factors(const StepContext&) override { return {std::nan("")}; }
  };
  EXPECT_THAT(RunReplicas(1, {},
                          [&](Replica& replica) {
                            torch::nn::Sequential model = MakeModel();
                            torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1));
                            AdaptiveDataParallel parallel(replica.job, *model, optimizer,
                                                          {.scaling_rule = std::make_shared<Bad>()});
                            LossOf(model, Samples(), 0, 8).backward();
                            parallel.Step();
                          }),
              ElementsAre(1));
}

class LossScaling : public ::testing::TestWithParam<int> {};

TEST_P(LossScaling, GivesTheGradientsOfThePlainLoss) {
  const Samples samples;
  const std::vector<torch::Tensor> expected = PlainGradients(samples, 0, 8);
  const int replicas = GetParam();
  RunReplicas(replicas, {}, [&](Replica& replica) {
    torch::nn::Sequential model = MakeModel();
    torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.0));
    GradScaler scaler({.init_scale = 1024});
    AdaptiveDataParallel parallel(replica.job, *model, optimizer, {.grad_scaler = &scaler});
    const int64_t share = 8 / replicas;
    replica.job.core().step().SetMicroBatch({.local = share, .step_total = 8, .initial_batch_size = 8});
    scaler.Scale(LossOf(model, samples, share * replica.job.rank(), share)).backward();
    parallel.Step();
    ExpectEqual(GradientsOf(model), expected);
    EXPECT_EQ(scaler.scale(), 1024);
    EXPECT_EQ(scaler.growth_steps(), 1);
  });
}

TEST_P(LossScaling, LeavesOutAStepThatOverflowsAnywhere) {
  const Samples samples;
  const int replicas = GetParam();
  RunReplicas(replicas, {}, [&](Replica& replica) {
    torch::nn::Sequential model = MakeModel();
    torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1));
    GradScaler scaler({.init_scale = 1024});
    AdaptiveDataParallel parallel(replica.job, *model, optimizer, {.grad_scaler = &scaler});
    std::vector<torch::Tensor> before;
    for (const torch::Tensor& parameter : model->parameters()) before.push_back(parameter.detach().clone());
    const int64_t share = 8 / replicas;
    replica.job.core().step().SetMicroBatch({.local = share, .step_total = 8, .initial_batch_size = 8});
    const float factor = replica.job.rank() == 0 ? INFINITY : 1;
    scaler.Scale(LossOf(model, samples, 0, share) * factor).backward();
    parallel.Step();
    for (size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(torch::equal(model->parameters()[i], before[i]));
    EXPECT_EQ(scaler.scale(), 512);
    EXPECT_EQ(parallel.Progress(), 0);
    EXPECT_EQ(replica.job.optimizer_steps(), 1);
  });
}

TEST_P(LossScaling, SeesOverflowsAtAScaleOfOneToo) {
  const Samples samples;
  const int replicas = GetParam();
  RunReplicas(replicas, {}, [&](Replica& replica) {
    torch::nn::Sequential model = MakeModel();
    torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1));
    GradScaler scaler({.init_scale = 1});
    AdaptiveDataParallel parallel(replica.job, *model, optimizer, {.grad_scaler = &scaler});
    const torch::Tensor before = model->parameters()[0].detach().clone();
    const int64_t share = 8 / replicas;
    // Beyond the steps in which statistics are measured anyway.
    for (int step = 0; step < 60; ++step) {
      replica.job.core().step().SetMicroBatch({.local = share, .step_total = 8, .initial_batch_size = 8});
      parallel.ZeroGrad();
      scaler.Scale(LossOf(model, samples, 0, share) * 0).backward();
      parallel.Step();
    }
    replica.job.core().step().SetMicroBatch({.local = share, .step_total = 8, .initial_batch_size = 8});
    parallel.ZeroGrad();
    scaler.Scale(LossOf(model, samples, 0, share) * INFINITY).backward();
    parallel.Step();
    EXPECT_TRUE(torch::equal(model->parameters()[0], before));
    EXPECT_EQ(scaler.scale(), 0.5);
    EXPECT_EQ(parallel.Gain(), 0);
  });
}

// What is seen to find overflows, and what is measured of the noise, are two things.
TEST_P(LossScaling, ChangesNothingAboutTheStatistics) {
  const Samples samples;
  const int replicas = GetParam();
  for (const int64_t micro_batches : {1, 2}) {
    SCOPED_TRACE(micro_batches);
    // By whether the loss is scaled: squared norm, variance, progress.
    std::vector<std::vector<double>> found(2);
    for (const bool scaled : {false, true}) {
      RunReplicas(replicas, {}, [&](Replica& replica) {
        torch::nn::Sequential model = MakeModel();
        torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.01));
        // A power of two, so that all gradients have the same bits.
        GradScaler scaler({.init_scale = 1024});
        AdaptiveDataParallel parallel(replica.job, *model, optimizer,
                                      {.grad_scaler = scaled ? &scaler : nullptr});
        const int64_t share = 8 / replicas / micro_batches;
        for (int64_t step = 0; step < 120; ++step) {
          int64_t begin = 8 * (step % 4) + replica.job.rank() * share * micro_batches;
          for (int64_t k = 0; k < micro_batches; ++k, begin += share) {
            replica.job.core().step().SetMicroBatch({.local = share,
                                                     .step_total = 8,
                                                     .last = k + 1 == micro_batches,
                                                     .scale = 4,
                                                     .initial_batch_size = 2});
            parallel.ZeroGrad();
            const torch::Tensor loss = LossOf(model, samples, begin, share);
            (scaled ? scaler.Scale(loss) : loss).backward();
            parallel.Step();
          }
        }
        if (replica.job.rank() == 0)
          found[scaled] = {parallel.SqrAvg(), parallel.VarAvg(), parallel.Progress()};
      });
    }
    ASSERT_EQ(found[0].size(), 3u);
    for (size_t i = 0; i < found[0].size(); ++i) EXPECT_DOUBLE_EQ(found[1][i], found[0][i]) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Replicas, LossScaling, ::testing::Values(1, 2));

// Adam's gradients count as Adam applies them, once its moments say something.
TEST(AdaptiveDataParallel, AdamsStatisticsArePreconditioned) {
  const Samples samples;
  RunReplicas(2, {}, [&](Replica& replica) {
    torch::nn::Sequential model = MakeModel();
    torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(1e-6));
    AdaptiveDataParallel parallel(replica.job, *model, optimizer, {.statistics_period = 1});
    double plain = 0;
    for (int step = 0; step < 400; ++step) {
      replica.job.core().step().SetMicroBatch({.local = 4, .step_total = 8, .initial_batch_size = 8});
      parallel.ZeroGrad();
      // The same samples on both, so that there is no noise.
      LossOf(model, samples, 0, 4).backward();
      parallel.Step();
      if (step == 3) plain = parallel.SqrAvg();
    }
    // The same gradient in every step: Adam divides each of the 33 numbers by its size.
    EXPECT_LT(plain, 3);
    EXPECT_GT(parallel.SqrAvg(), 15);
  });
}

}  // namespace
}  // namespace adaptdl::elastic
