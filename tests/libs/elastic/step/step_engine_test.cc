// The step engine, on a CPU and on a device that the host cannot touch: loss scaling, and how often it waits.

#include "libs/elastic/step/step_engine.h"

#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "adaptdl/data_loader.h"
#include "adaptdl/grad_scaler.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/device/guarded_device.h"
#include "tests/libs/elastic/replica_threads.h"
#include "tests/libs/elastic/step/described_training.h"

namespace adaptdl::elastic {
namespace {

using device::DataType;
using ::testing::Each;

constexpr double kInf = std::numeric_limits<double>::infinity();

class StepEngineTest : public testing::TestWithParam<DeviceKind> {
 protected:
  bool asynchronous() const { return GetParam() != DeviceKind::kCpu; }

  // Replicas with a device each.
  void Run(int size, const std::function<void(Replica& replica, device::Device& device)>& body) {
    std::vector<device::Device*> devices;
    for (int rank = 0; rank < size; ++rank) devices.push_back(&MakeDevice(GetParam()));
    RunOptions options;
    options.wrap = [&](std::unique_ptr<comm::Communicator> inner, const GroupMembership& group) {
      return Over(std::move(inner), *devices[static_cast<size_t>(group.rank)]);
    };
    const std::vector<int> codes = RunReplicas(size, options, [&](Replica& replica) {
      body(replica, *devices[static_cast<size_t>(replica.job.rank())]);
    });
    EXPECT_THAT(codes, Each(0));
  }

  static void SetShare(Replica& replica) {
    const int64_t size = replica.job.num_replicas();
    replica.job.core().step().SetMicroBatch(
        {.local = 4, .step_total = 4 * size, .initial_batch_size = 4 * size});
  }
};

TEST_P(StepEngineTest, ScalesLossesAndLeavesOutStepsThatOverflowAnywhere) {
  for (const DataType type : {DataType::kFloat32, DataType::kFloat16}) {
    for (const int size : {1, 2}) {
      Run(size, [&](Replica& replica, device::Device& device) {
        GradScaler scaler({.init_scale = 1024});
        DescribedTraining training(replica.job, device, {2}, 1, {.type = type, .grad_scaler = &scaler});
        SetShare(replica);
        training.Backward({Numbers{1024, 512}});
        training.engine().Step();
        EXPECT_EQ(training.steps(), 1);
        // The gradient is (1, 0.5), and the learning rate 0.1.
        EXPECT_NEAR(training.Parameters()[0], 0.9, 1e-3);
        EXPECT_NEAR(training.Parameters()[1], 0.95, 1e-3);
        training.engine().ZeroGrad();
        SetShare(replica);
        training.Backward({Numbers{1, replica.job.rank() == 0 ? kInf : 1}});
        training.engine().Step();
        EXPECT_EQ(training.steps(), 1) << "the step is left out";
        EXPECT_EQ(scaler.scale(), 512);
        EXPECT_EQ(training.engine().gain(), 0);
      });
    }
  }
}

TEST_P(StepEngineTest, AStepThatTheProgramLeavesOutIsCompleteWithoutTheOptimiser) {
  for (const int size : {1, 2}) {
    Run(size, [&](Replica& replica, device::Device& device) {
      DescribedTraining training(replica.job, device, {2}, 1, {});
      // Nothing to be left out.
      training.engine().LeaveOut();
      SetShare(replica);
      training.Backward({Numbers{1, 0.5}});
      training.engine().LeaveOut();
      EXPECT_EQ(training.steps(), 0);
      EXPECT_EQ(training.engine().gain(), 0);
      training.engine().ZeroGrad();
      SetShare(replica);
      training.Backward({Numbers{1, 0.5}});
      training.engine().Step();
      EXPECT_EQ(training.steps(), 1);
      EXPECT_NEAR(training.Parameters()[0], 0.9, 1e-3);
    });
  }
}

TEST_P(StepEngineTest, WaitsOnceInAStepOfSeveralAndAloneOnlyForWhatItMeasures) {
  for (const int size : {1, 2}) {
    Run(size, [&](Replica& replica, device::Device& device) {
      DescribedTraining training(replica.job, device, {40, 3}, 1,
                                 {.statistics_period = 4, .learning_rate = 0});
      int64_t measured_steps = 0;
      int64_t waits_alone = 0;
      for (int step = 0; step < 60; ++step) {
        training.engine().ZeroGrad();
        SetShare(replica);
        const auto gradients =
            training.model().Prepare({Numbers(40, 1 + 0.1 * (step % 3)), Numbers(3, 2 + 0.1 * (step % 2))});
        const double weight = training.engine().noise().weight();
        const int64_t own = training.model().own_waits();
        const int64_t before = device::Device::WaitsOfThread();
        training.model().Backward(training.engine().exchange(), gradients);
        training.engine().Step();
        const int64_t waits = device::Device::WaitsOfThread() - before - (training.model().own_waits() - own);
        if (size == 1) {
          waits_alone += waits;
        } else {
          EXPECT_EQ(waits, asynchronous() ? 1 : 0) << step;
        }
        if (training.engine().noise().weight() != weight) ++measured_steps;
      }
      EXPECT_GT(measured_steps, 30) << "each of the first steps, and then every fourth";
      EXPECT_LT(measured_steps, 45);
      // The first gradients of all have nothing to be compared with, and are measured all the same.
      EXPECT_LE(waits_alone, asynchronous() ? measured_steps + 1 : 0);
    });
  }
}

TEST_P(StepEngineTest, MeasuresTheSameOnEveryDevice) {
  for (const int size : {1, 3}) {
    Run(size, [&](Replica& replica, device::Device& device) {
      DescribedTraining training(replica.job, device, {2}, 0, {.statistics_period = 1, .learning_rate = 0});
      for (int step = 0; step < 20; ++step) {
        training.engine().ZeroGrad();
        SetShare(replica);
        const double noise = (step + replica.job.rank()) % 2 == 0 ? 1 : -1;
        training.Backward({Numbers{3 + noise, 4 - noise}});
        training.engine().Step();
      }
      // Of what alternates around (3, 4).
      EXPECT_GT(training.engine().noise().sqr_avg(), 15);
      EXPECT_LT(training.engine().noise().sqr_avg(), 35);
      EXPECT_GT(training.engine().noise().var_avg(), 0.5);
      const Progress told = replica.job.core().progress().Report(0);
      EXPECT_NEAR(told.gradient_noise_scale,
                  4 * size * training.engine().noise().var_avg() / training.engine().noise().sqr_bound(),
                  1e-9);
      EXPECT_EQ(told.efficiency, 1) << "the initial batch size is in use";
      EXPECT_EQ(told.learning_rate_factor, 1);
      EXPECT_EQ(told.gain, 1);
    });
  }
}

TEST_P(StepEngineTest, ForgetsAsFastAsItIsTold) {
  Run(1, [&](Replica& replica, device::Device& device) {
    const auto norm_after = [&](double smoothing) {
      DescribedTraining training(
          replica.job, device, {1}, 0,
          {.statistics_period = 1, .statistics_smoothing = smoothing, .learning_rate = 0});
      for (int step = 0; step < 40; ++step) {
        training.engine().ZeroGrad();
        SetShare(replica);
        training.Backward({Numbers{step < 20 ? 10.0 : 1.0}});
        training.engine().Step();
      }
      return training.engine().noise().sqr_avg();
    };
    EXPECT_NEAR(norm_after(0.5), 1, 0.1);
    EXPECT_NEAR(norm_after(0.9999), 50, 5);
  });
}

TEST_P(StepEngineTest, TellsWhatALargerBatchIsWorth) {
  Run(1, [&](Replica& replica, device::Device& device) {
    DescribedTraining training(replica.job, device, {2}, 0, {.statistics_period = 1, .learning_rate = 0});
    const auto step = [&](double noise, double scale) {
      training.engine().ZeroGrad();
      replica.job.core().step().SetMicroBatch(
          {.local = 16, .step_total = 16, .scale = scale, .initial_batch_size = 8});
      training.Backward({Numbers{3 + noise, 4 - noise}});
      training.engine().Step();
    };
    step(0, 2);
    EXPECT_EQ(replica.job.core().progress().Report(0).efficiency, 0) << "nothing to be compared with yet";
    for (int i = 0; i < 100; ++i) step(i % 2 == 0 ? 1 : -1, 2);
    const Progress told = replica.job.core().progress().Report(0);
    const double noise_scale = told.gradient_noise_scale;
    EXPECT_GT(noise_scale, 0);
    EXPECT_NEAR(told.efficiency, (noise_scale + 8) / (noise_scale + 16), 1e-9);
    EXPECT_DOUBLE_EQ(told.learning_rate_factor, training.engine().learning_rate_factor());
    EXPECT_GT(told.learning_rate_factor, 1);
  });
}

TEST(StepEngineTiming, StepsAreTimedByTheDeviceThatTheyRunOn) {
  // Stands still but for the work of the backward passes.
  std::atomic<double> device_seconds = 0;
  constexpr double kWork = 60;
  device::GuardedDevice device([&] { return device_seconds.load(); });
  RunReplicas(1, {}, [&](Replica& replica) {
    DescribedTraining training(replica.job, device, {2}, 1);
    AdaptiveDataLoader loader(replica.job, 48, {.batch_size = 4});
    ASSERT_TRUE(loader.BeginLoop());
    while (loader.Next()) {
      training.engine().ZeroGrad();
      const auto gradients = training.model().Prepare({Numbers{1, 2}});
      device.Enqueue(training.model().stream(), [&] { device_seconds = device_seconds + kWork; });
      training.model().Backward(training.engine().exchange(), gradients);
      training.engine().Step();
    }
    const auto entries = replica.job.core().meter().profile().Entries();
    ASSERT_EQ(entries.size(), 1);
    const ProfileEntry& entry = entries.begin()->second;
    EXPECT_GT(entry.optim_count, 5);
    EXPECT_NEAR(entry.optim_step_time / entry.optim_count, kWork, 1e-9);
  });
}

INSTANTIATE_TEST_SUITE_P(On, StepEngineTest, testing::ValuesIn(DeviceKinds()),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace adaptdl::elastic
