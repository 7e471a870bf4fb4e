// Training over re-scales in place, with and without losses, is the training of one replica: each sample of a
// pass is in one step, no step is taken twice or left out, and the parameters in the end are the same.

#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "adaptdl/accumulator.h"
#include "adaptdl/data_loader.h"
#include "adaptdl/data_parallel.h"
#include "adaptdl/epochs.h"
#include "adaptdl/torch_lr_scheduler.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/libs/elastic/in_place_planner.h"
#include "tests/libs/elastic/regression_samples.h"
#include "tests/libs/elastic/torch/torch_test_device.h"
#include "torch/nn/functional.h"
#include "torch/nn/modules/linear.h"
#include "torch/optim/schedulers/step_lr.h"
#include "torch/optim/sgd.h"
#include "torch/utils.h"

namespace adaptdl::elastic {
namespace {

std::vector<float> NumbersOf(const std::vector<torch::Tensor>& tensors) {
  std::vector<float> numbers;
  for (const torch::Tensor& tensor : tensors) {
    const torch::Tensor copy = tensor.detach().cpu();
    const float* data = copy.data_ptr<float>();
    numbers.insert(numbers.end(), data, data + copy.numel());
  }
  return numbers;
}

class Planner final : public InPlacePlanner {
 public:
  using InPlacePlanner::InPlacePlanner;

 private:
  std::unique_ptr<comm::Communicator> OnDevice(std::unique_ptr<comm::Communicator> inner) override {
    return OverTorchTestDevice(std::move(inner));
  }

  void Train(const std::string& name, Replica& replica) override {
    const torch::Device device = TorchTestDevice();
    RegressionSamples samples = MakeRegressionSamples(kSamples);
    samples = {samples.inputs.to(device), samples.targets.to(device)};
    torch::nn::Linear model(3, 1);
    model->to(device);
    {
      torch::NoGradGuard no_gradients;
      // Newcomers have other parameters than rank 0 begins with.
      for (torch::Tensor& parameter : model->parameters()) parameter.fill_(name == "replica 0" ? 0.1 : 7.0);
    }
    torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    AdaptiveDataParallel parallel(replica.job, *model, optimizer);
    LrScheduler<torch::optim::StepLR> schedule(replica.job, "schedule", optimizer, 10, 0.7);
    AdaptiveDataLoader loader(replica.job, kSamples, {.batch_size = kBatch, .seed = 11});
    if (program().adapts) loader.AutoscaleBatchSize(kLargestBatch, {}, /*accumulation=*/true);
    Accumulator sums(replica.job);
    for ([[maybe_unused]] int epoch : RemainingEpochsUntil(replica.job, kEpochs)) {
      if (!loader.BeginLoop()) continue;
      while (loader.Next()) {
        OnStep(name, replica);
        if (program().adapts) Propose(replica, loader);
        const int64_t step = replica.job.optimizer_steps();
        const torch::Tensor indices = torch::tensor(loader.indices()).to(device);
        if (program().gathers_before) {
          sums["before"] += static_cast<double>(loader.weight());
          sums.Synchronize();
        }
        parallel.ZeroGrad();
        torch::nn::functional::mse_loss(model->forward(samples.inputs.index_select(0, indices)),
                                        samples.targets.index_select(0, indices))
            .backward();
        if (loader.is_optimizer_step()) DieAfterBackward(name);
        if (program().gathers_between) {
          sums["between"] += static_cast<double>(loader.weight());
          sums.Synchronize();
        }
        parallel.Step();
        if (!loader.is_optimizer_step()) continue;
        schedule.step();
        // Taken with this share, unless it was taken by others from another member's part.
        if (replica.job.optimizer_steps() == step + 1)
          Note(step, loader, replica, NumbersOf(model->parameters()));
      }
    }
    sums.Synchronize();
    Finish(program().gathers_before ? sums["before"] : sums["between"],
           optimizer.param_groups()[0].options().get_lr(), NumbersOf(model->parameters()));
  }
};

class InPlaceTrainingTest : public ::testing::Test {
 protected:
  static const std::vector<float>& Undisturbed() {
    static const std::vector<float> parameters = [] {
      Planner alone(std::map<int64_t, Event>{});
      alone.Run(1);
      return alone.parameters();
    }();
    return parameters;
  }
};

TEST_F(InPlaceTrainingTest, GrowingAndShrinkingChangeNothing) {
  Planner planner({{3, Event::kGrow}, {9, Event::kGrow}, {15, Event::kShrink}, {22, Event::kShrink}});
  planner.Run(1);
  ExpectSameTraining(planner, Undisturbed());
  EXPECT_EQ(planner.groups(), 5);
  std::map<int64_t, int> uses;
  for (const auto& [step, samples] : planner.steps()) {
    for (int64_t sample : samples) ++uses[sample];
  }
  for (int64_t i = 0; i < kSamples; ++i) EXPECT_EQ(uses[i], kEpochs) << "sample " << i;
}

TEST_F(InPlaceTrainingTest, AStepThatNobodyCompletedIsBegunAnew) {
  Planner planner({{5, Event::kUndone}, {20, Event::kUndone}});
  planner.Run(3);
  ExpectSameTraining(planner, Undisturbed());
  EXPECT_EQ(planner.groups(), 3);
}

TEST_F(InPlaceTrainingTest, AStepThatOneMemberCompletedIsTakenOverByTheOthers) {
  Planner planner({{5, Event::kHalfDone}, {20, Event::kHalfDone}});
  planner.Run(3);
  ExpectSameTraining(planner, Undisturbed());
  EXPECT_EQ(planner.groups(), 3);
}

TEST_F(InPlaceTrainingTest, ALostReplicaTakesNoStepWithIt) {
  Planner planner({{5, Event::kDeath}, {20, Event::kDeath}});
  planner.Run(3);
  ExpectSameTraining(planner, Undisturbed());
  EXPECT_EQ(planner.finished(), 1);
}

// The step has all gradients, those of the lost member too.
TEST_F(InPlaceTrainingTest, AMemberThatDiesBetweenBackwardAndStepTakesNoGradientsWithIt) {
  Planner planner({{5, Event::kDeathAfterBackward}, {20, Event::kDeathAfterBackward}},
                  {.gathers_between = true});
  planner.Run(3);
  ExpectSameTraining(planner, Undisturbed());
  EXPECT_EQ(planner.finished(), 1);
}

TEST_F(InPlaceTrainingTest, WhatASumInAStepThatCameToNothingHasAddedIsTakenBack) {
  for (const Event event : {Event::kUndone, Event::kHalfDone}) {
    for (const bool before : {false, true}) {
      Planner planner({{5, event}, {20, event}}, {.gathers_before = before, .gathers_between = !before});
      planner.Run(3);
      ExpectSameTraining(planner, Undisturbed());
      EXPECT_EQ(planner.groups(), 3);
      EXPECT_EQ(planner.sums(), std::vector<double>(3, kEpochs * kSamples));
    }
  }
}

TEST_F(InPlaceTrainingTest, AnyScheduleOfChangesAndLossesGivesTheSameModel) {
  std::mt19937 random(7);
  for (int run = 0; run < 80; ++run) {
    std::map<int64_t, Event> events;
    const int count = 2 + static_cast<int>(random() % 12);
    for (int i = 0; i < count; ++i) {
      events[random() % (kSteps - 1)] = static_cast<Event>(1 + random() % 7);
    }
    // Half of them as most programs are.
    const Program program = {.gathers_before = run % 2 == 1 && run % 8 > 3,
                             .gathers_between = run % 2 == 1 && run % 4 > 1};
    Planner planner(events, program);
    planner.Run(1 + static_cast<int>(random() % 4));
    ExpectSameTraining(planner, Undisturbed());
    if (HasFailure()) FAIL() << "in run " << run;
  }
}

// A change of the batch size rides on a step that only rank 0 completes before a member dies: the others
// learn of it as a smaller group.
TEST_F(InPlaceTrainingTest, AllComeToTheSameBatchWhenAMemberDiesInTheStepThatDecidedOnIt) {
  std::mt19937 random(11);
  for (int run = 0; run < 40; ++run) {
    std::map<int64_t, Event> events;
    const int count = 2 + static_cast<int>(random() % 6);
    for (int i = 0; i < count; ++i) {
      const Event any = static_cast<Event>(1 + random() % 7);
      events[random() % 25] = random() % 2 == 0 ? Event::kHalfDoneAndDeath : any;
    }
    Planner planner(events, {.gathers_between = run % 4 == 3, .adapts = true});
    planner.Run(2 + static_cast<int>(random() % 4));
    ASSERT_GE(planner.finished(), 1);
    EXPECT_TRUE(planner.always_alike());
    for (const auto& [step, batches] : planner.batches()) EXPECT_EQ(batches.size(), 1u) << "step " << step;
    if (HasFailure()) FAIL() << "in run " << run;
  }
}

}  // namespace
}  // namespace adaptdl::elastic
