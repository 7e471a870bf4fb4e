// As in_place_training_test.cc, with a model that is nothing but descriptions of memory: on a CPU, and on a
// device that the host cannot touch. Training over re-scales in place, with and without losses, is the
// training of one replica.

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "adaptdl/accumulator.h"
#include "adaptdl/data_loader.h"
#include "adaptdl/epochs.h"
#include "adaptdl/scaling_rule.h"
#include "gtest/gtest.h"
#include "tests/libs/elastic/in_place_planner.h"
#include "tests/libs/elastic/regression_numbers.h"
#include "tests/libs/elastic/step/described_training.h"

namespace adaptdl::elastic {
namespace {

class Planner final : public InPlacePlanner {
 public:
  Planner(DeviceKind kind, std::map<int64_t, Event> events, const Program& program = {})
      : InPlacePlanner(std::move(events), program), kind_(kind) {}

 private:
  // Each replica's device; what a group exchanges over is made for any of them.
  std::unique_ptr<comm::Communicator> OnDevice(std::unique_ptr<comm::Communicator> inner) override {
    return Over(std::move(inner), device_);
  }

  void Train(const std::string& name, Replica& replica) override {
    const std::vector<std::array<float, 4>> samples = MakeRegressionNumbers(kSamples);
    // Newcomers have other parameters than rank 0 begins with.
    DescribedTraining training(replica.job, device_, {3, 1}, name == "replica 0" ? 0.1 : 7.0);
    AdaptiveDataLoader loader(replica.job, kSamples, {.batch_size = kBatch, .seed = 11});
    if (program().adapts) loader.AutoscaleBatchSize(kLargestBatch, {}, /*accumulation=*/true);
    Accumulator sums(replica.job);
    for ([[maybe_unused]] int epoch : RemainingEpochsUntil(replica.job, kEpochs)) {
      if (!loader.BeginLoop()) continue;
      while (loader.Next()) {
        OnStep(name, replica);
        if (program().adapts) Propose(replica, loader);
        const int64_t step = replica.job.optimizer_steps();
        if (program().gathers_before) {
          sums["before"] += static_cast<double>(loader.weight());
          sums.Synchronize();
        }
        training.engine().ZeroGrad();
        training.Backward(Gradient(training.Parameters(), samples, loader));
        if (loader.is_optimizer_step()) DieAfterBackward(name);
        if (program().gathers_between) {
          sums["between"] += static_cast<double>(loader.weight());
          sums.Synchronize();
        }
        training.engine().Step();
        if (!loader.is_optimizer_step()) continue;
        // Taken with this share, unless it was taken by others from another member's part.
        if (replica.job.optimizer_steps() == step + 1) Note(step, loader, replica, training.Parameters());
      }
    }
    sums.Synchronize();
    Finish(program().gathers_before ? sums["before"] : sums["between"], 0, training.Parameters());
  }

  // Of the mean squared error of a linear model.
  static Gradients Gradient(const std::vector<float>& model, const std::vector<std::array<float, 4>>& samples,
                            const AdaptiveDataLoader& loader) {
    Numbers weights(3, 0);
    Numbers bias(1, 0);
    const auto count = static_cast<double>(loader.indices().size());
    for (const int64_t index : loader.indices()) {
      const std::array<float, 4>& sample = samples[static_cast<size_t>(index)];
      double error = static_cast<double>(model[3]) - static_cast<double>(sample[3]);
      for (size_t k = 0; k < 3; ++k) error += static_cast<double>(model[k]) * static_cast<double>(sample[k]);
      for (size_t k = 0; k < 3; ++k) weights[k] += 2 * error * static_cast<double>(sample[k]) / count;
      bias[0] += 2 * error / count;
    }
    return {weights, bias};
  }

  const DeviceKind kind_;
  device::Device& device_ = MakeDevice(kind_);
};

class InPlaceStepTest : public ::testing::TestWithParam<DeviceKind> {
 protected:
  static const std::vector<float>& Undisturbed() {
    static const std::vector<float> parameters = [] {
      Planner alone(DeviceKind::kCpu, std::map<int64_t, Event>{});
      alone.Run(1);
      return alone.parameters();
    }();
    return parameters;
  }
};

TEST_P(InPlaceStepTest, GrowingAndShrinkingChangeNothing) {
  Planner planner(GetParam(),
                  {{3, Event::kGrow}, {9, Event::kGrow}, {15, Event::kShrink}, {22, Event::kShrink}});
  planner.Run(1);
  ExpectSameTraining(planner, Undisturbed());
  EXPECT_EQ(planner.groups(), 5);
}

TEST_P(InPlaceStepTest, AStepThatNobodyCompletedIsBegunAnew) {
  Planner planner(GetParam(), {{5, Event::kUndone}, {20, Event::kUndone}});
  planner.Run(3);
  ExpectSameTraining(planner, Undisturbed());
  EXPECT_EQ(planner.groups(), 3);
}

TEST_P(InPlaceStepTest, AStepThatOneMemberCompletedIsTakenOverByTheOthers) {
  Planner planner(GetParam(), {{5, Event::kHalfDone}, {20, Event::kHalfDone}});
  planner.Run(3);
  ExpectSameTraining(planner, Undisturbed());
  EXPECT_EQ(planner.groups(), 3);
}

TEST_P(InPlaceStepTest, ALostReplicaTakesNoStepWithIt) {
  Planner planner(GetParam(), {{5, Event::kDeath}, {20, Event::kDeathAfterBackward}},
                  {.gathers_between = true});
  planner.Run(3);
  ExpectSameTraining(planner, Undisturbed());
  EXPECT_EQ(planner.finished(), 1);
}

TEST_P(InPlaceStepTest, AnyScheduleOfChangesAndLossesGivesTheSameModel) {
  std::mt19937 random(7);
  for (int run = 0; run < (GetParam() == DeviceKind::kCpu ? 40 : 12); ++run) {
    std::map<int64_t, Event> events;
    const int count = 2 + static_cast<int>(random() % 12);
    for (int i = 0; i < count; ++i) events[random() % (kSteps - 1)] = static_cast<Event>(1 + random() % 7);
    const Program program = {.gathers_before = run % 4 == 1, .gathers_between = run % 4 == 3};
    Planner planner(GetParam(), events, program);
    planner.Run(1 + static_cast<int>(random() % 4));
    ExpectSameTraining(planner, Undisturbed());
    if (HasFailure()) FAIL() << "in run " << run;
  }
}

TEST_P(InPlaceStepTest, AllComeToTheSameBatchWhenAMemberDiesInTheStepThatDecidedOnIt) {
  std::mt19937 random(11);
  for (int run = 0; run < (GetParam() == DeviceKind::kCpu ? 20 : 6); ++run) {
    std::map<int64_t, Event> events;
    const int count = 2 + static_cast<int>(random() % 6);
    for (int i = 0; i < count; ++i) {
      const Event any = static_cast<Event>(1 + random() % 7);
      events[random() % 25] = random() % 2 == 0 ? Event::kHalfDoneAndDeath : any;
    }
    Planner planner(GetParam(), events, {.gathers_between = run % 4 == 3, .adapts = true});
    planner.Run(2 + static_cast<int>(random() % 4));
    ASSERT_GE(planner.finished(), 1);
    EXPECT_TRUE(planner.always_alike());
    if (HasFailure()) FAIL() << "in run " << run;
  }
}

INSTANTIATE_TEST_SUITE_P(On, InPlaceStepTest, testing::ValuesIn(DeviceKinds()),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace adaptdl::elastic
