#include "adaptdl/torch_lr_scheduler.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/libs/elastic/replica_threads.h"
#include "tests/libs/elastic/temp_folder.h"
#include "torch/nn/modules/linear.h"
#include "torch/optim/schedulers/step_lr.h"
#include "torch/optim/sgd.h"

namespace adaptdl::elastic {
namespace {

// Halves the rate after ever longer times, by the number of steps alone.
class Halving : public torch::optim::LRScheduler {
 public:
  explicit Halving(torch::optim::Optimizer& optimizer) : LRScheduler(optimizer) {}

 private:
  std::vector<double> get_lrs() override {
    std::vector<double> rates = get_current_lrs();
    if ((step_count_ & (step_count_ - 1)) == 0) {
      for (double& rate : rates) rate /= 2;
    }
    return rates;
  }
};

// Rates after each of `steps` steps, interrupted by a checkpoint and a new process after each in `stops`.
template <typename Scheduler, typename... Arguments>
std::vector<double> Rates(int steps, const std::vector<int>& stops, Arguments... arguments) {
  TempFolder folder;
  std::vector<double> rates;
  for (size_t segment = 0; segment <= stops.size(); ++segment) {
    RunReplicas(1, {.checkpoint_path = folder.path()}, [&](Replica& replica) {
      torch::nn::Linear model(2, 1);
      torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(1.0 / 3));
      LrScheduler<Scheduler> schedule(replica.job, "schedule", optimizer, arguments...);
      EXPECT_EQ(schedule.restored(), segment > 0);
      EXPECT_EQ(schedule.steps(), rates.size());
      const int end = segment < stops.size() ? stops[segment] : steps;
      while (static_cast<int>(rates.size()) < end) {
        schedule.step();
        rates.push_back(optimizer.param_groups()[0].options().get_lr());
      }
      EXPECT_TRUE(replica.job.SaveAll());
    });
  }
  return rates;
}

TEST(LrScheduler, GoesOnAsIfThereHadBeenNoRestart) {
  const std::vector<double> straight = Rates<torch::optim::StepLR>(12, {}, 3u, 0.7);
  EXPECT_LT(straight.back(), straight.front());
  EXPECT_EQ(Rates<torch::optim::StepLR>(12, {1, 3, 4, 9}, 3u, 0.7), straight);
}

TEST(LrScheduler, TakesSchedulersOfTheProgram) {
  EXPECT_EQ(Rates<Halving>(20, {7, 8, 16}), Rates<Halving>(20, {}));
}

// The number of groups is part of the program.
TEST(LrScheduler, EndsTheProgramWhenTheCheckpointIsOfOtherGroups) {
  TempFolder folder;
  const auto run = [&](size_t groups) {
    return RunReplicas(1, {.checkpoint_path = folder.path()}, [&](Replica& replica) {
      torch::nn::Linear model(2, 1);
      std::vector<torch::optim::OptimizerParamGroup> all;
      for (size_t i = 0; i < groups; ++i)
        all.emplace_back(std::vector<torch::Tensor>{model->parameters()[i]});
      torch::optim::SGD optimizer(all, torch::optim::SGDOptions(0.1));
      LrScheduler<Halving> schedule(replica.job, "schedule", optimizer);
      replica.job.SaveAll();
    });
  };
  EXPECT_THAT(run(1), ::testing::ElementsAre(0));
  EXPECT_THAT(run(2), ::testing::ElementsAre(1));
}

}  // namespace
}  // namespace adaptdl::elastic
