// Training over any sequence of re-scales is the training of one replica: each sample of a pass once, no step
// twice or left out, the same parameters in the end.

#include "adaptdl/data_parallel.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "adaptdl/data_loader.h"
#include "adaptdl/epochs.h"
#include "adaptdl/grad_scaler.h"
#include "adaptdl/tensorboard.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/file.h"
#include "tests/libs/elastic/regression_samples.h"
#include "tests/libs/elastic/replica_threads.h"
#include "tests/libs/elastic/temp_folder.h"
#include "torch/nn/functional.h"
#include "torch/nn/module.h"
#include "torch/nn/modules/container/sequential.h"
#include "torch/nn/modules/linear.h"
#include "torch/nn/pimpl.h"
#include "torch/optim/adam.h"
#include "torch/optim/sgd.h"
#include "torch/utils.h"

namespace adaptdl::elastic {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kSamples = 53;
constexpr int64_t kBatch = 8;
constexpr int kEpochs = 3;
constexpr int64_t kStepsPerEpoch = (kSamples + kBatch - 1) / kBatch;

// A model with the same parameters every time.
torch::nn::Linear MakeModel(double start) {
  torch::nn::Linear model(3, 1);
  torch::NoGradGuard no_gradients;
  for (torch::Tensor& parameter : model->parameters()) parameter.fill_(start);
  return model;
}

// What the members of a run did, step by step.
class Trace {
 public:
  void Add(int64_t step, const AdaptiveDataLoader& loader) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto& samples = steps_[step];
    samples.insert(samples.end(), loader.indices().begin(), loader.indices().begin() + loader.weight());
  }

  // Every step once, every sample once per epoch.
  void ExpectComplete() const {
    ASSERT_EQ(static_cast<int64_t>(steps_.size()), kEpochs * kStepsPerEpoch);
    for (int epoch = 0; epoch < kEpochs; ++epoch) {
      std::vector<int64_t> seen;
      for (int64_t step = epoch * kStepsPerEpoch; step < (epoch + 1) * kStepsPerEpoch; ++step) {
        seen.insert(seen.end(), steps_.at(step).begin(), steps_.at(step).end());
      }
      std::sort(seen.begin(), seen.end());
      ASSERT_EQ(static_cast<int64_t>(seen.size()), kSamples) << "epoch " << epoch;
      for (int64_t i = 0; i < kSamples; ++i) ASSERT_EQ(seen[i], i) << "epoch " << epoch;
    }
  }

 private:
  std::mutex mutex_;
  std::map<int64_t, std::vector<int64_t>> steps_;
};

enum class Optimizer { kSgd, kAdam };
void PrintTo(Optimizer optimizer, std::ostream* out) {
  *out << (optimizer == Optimizer::kSgd ? "Sgd" : "Adam");
}

struct Segment {
  int replicas = 1;
  // Steps of the whole job after which to stop; beyond the end: not at all.
  int64_t stop_after = 1'000'000;
};

// Trains with the given sequence of replica sets, and gives the final parameters, one after the other.
std::vector<float> TrainInSegments(const std::vector<Segment>& segments, Optimizer kind, Trace* trace) {
  const RegressionSamples samples = MakeRegressionSamples(kSamples);
  TempFolder folder;
  std::vector<float> result;
  int64_t group = 0;
  for (const Segment& segment : segments) {
    RunReplicas(
        segment.replicas, {.checkpoint_path = folder.path(), .group = ++group}, [&](Replica& replica) {
          // Ranks above 0 start from other parameters: the broadcast must make up for it.
          torch::nn::Linear model = MakeModel(replica.job.rank() == 0 ? 0.1 : 7.0);
          std::unique_ptr<torch::optim::Optimizer> optimizer;
          if (kind == Optimizer::kSgd) {
            optimizer = std::make_unique<torch::optim::SGD>(model->parameters(),
                                                            torch::optim::SGDOptions(0.1).momentum(0.9));
          } else {
            optimizer =
                std::make_unique<torch::optim::Adam>(model->parameters(), torch::optim::AdamOptions(0.05));
          }
          AdaptiveDataParallel parallel(replica.job, *model, *optimizer);
          AdaptiveDataLoader loader(replica.job, kSamples, {.batch_size = kBatch, .seed = 11});
          for ([[maybe_unused]] int epoch : RemainingEpochsUntil(replica.job, kEpochs)) {
            if (!loader.BeginLoop()) continue;
            while (loader.Next()) {
              trace->Add(replica.job.optimizer_steps(), loader);
              const torch::Tensor chosen = torch::tensor(loader.indices(), torch::kLong);
              // Any one member asks, before the step that is to be the last.
              if (replica.job.optimizer_steps() + 1 == segment.stop_after &&
                  replica.job.rank() == segment.stop_after % segment.replicas) {
                replica.job.RequestStop();
              }
              optimizer->zero_grad();
              torch::mse_loss(model->forward(samples.inputs.index_select(0, chosen)),
                              samples.targets.index_select(0, chosen))
                  .backward();
              parallel.Step();
            }
          }
          if (replica.job.rank() == 0) {
            for (const torch::Tensor& parameter : model->parameters()) {
              const torch::Tensor flat = parameter.detach().flatten();
              result.insert(result.end(), flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel());
            }
          }
        });
  }
  return result;
}

void ExpectNear(const std::vector<float>& actual, const std::vector<float>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  ASSERT_FALSE(expected.empty());
  for (size_t i = 0; i < actual.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 2e-5);
}

class AnyOptimizer : public ::testing::TestWithParam<Optimizer> {};

TEST_P(AnyOptimizer, ReplicasTakeTheStepsOfOne) {
  Trace single;
  const std::vector<float> expected = TrainInSegments({{.replicas = 1}}, GetParam(), &single);
  single.ExpectComplete();
  for (int replicas : {2, 3, 5, 11}) {
    Trace trace;
    ExpectNear(TrainInSegments({{.replicas = replicas}}, GetParam(), &trace), expected);
    trace.ExpectComplete();
  }
}

TEST_P(AnyOptimizer, AnyScheduleOfRescalesGivesTheSameModel) {
  Trace single;
  const std::vector<float> expected = TrainInSegments({{.replicas = 1}}, GetParam(), &single);
  std::mt19937 random(17);
  for (int schedule = 0; schedule < 8; ++schedule) {
    std::vector<Segment> segments;
    int64_t step = 0;
    while (true) {
      step += 1 + static_cast<int64_t>(random() % 6);
      const int replicas = 1 + static_cast<int>(random() % 5);
      if (step >= kEpochs * kStepsPerEpoch) {
        segments.push_back({.replicas = replicas});
        break;
      }
      segments.push_back({.replicas = replicas, .stop_after = step});
    }
    SCOPED_TRACE("schedule " + std::to_string(schedule));
    Trace trace;
    ExpectNear(TrainInSegments(segments, GetParam(), &trace), expected);
    trace.ExpectComplete();
  }
}

// With as many replicas as before a restart changes nothing, to the last bit.
TEST_P(AnyOptimizer, ARestartWithTheSameReplicasGivesTheSameBits) {
  for (int replicas : {1, 3}) {
    Trace straight, restarted;
    const std::vector<float> expected = TrainInSegments({{.replicas = replicas}}, GetParam(), &straight);
    const std::vector<float> actual = TrainInSegments({{.replicas = replicas, .stop_after = 4},
                                                       {.replicas = replicas, .stop_after = 9},
                                                       {.replicas = replicas}},
                                                      GetParam(), &restarted);
    restarted.ExpectComplete();
    EXPECT_EQ(actual, expected) << replicas << " replicas";
  }
}

INSTANTIATE_TEST_SUITE_P(Optimizers, AnyOptimizer, ::testing::Values(Optimizer::kSgd, Optimizer::kAdam),
                         [](const auto& info) { return info.param == Optimizer::kSgd ? "Sgd" : "Adam"; });

// Gradients of 5 samples on 3 replicas (shares of 2, 2 and 1) in tiny buckets, against the whole batch.
TEST(AdaptiveDataParallel, AveragesGradientsOverSamplesNotReplicas) {
  const RegressionSamples samples = MakeRegressionSamples(kSamples);
  torch::nn::Linear whole = MakeModel(0.1);
  torch::mse_loss(whole->forward(samples.inputs.narrow(0, 0, 5)), samples.targets.narrow(0, 0, 5)).backward();
  RunReplicas(3, {}, [&](Replica& replica) {
    torch::nn::Linear model = MakeModel(0.1);
    torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.0));
    AdaptiveDataParallel parallel(replica.job, *model, optimizer, {.bucket_bytes = 1});
    AdaptiveDataLoader loader(replica.job, 5, {.batch_size = 5, .shuffle = false});
    for (loader.BeginLoop(); loader.Next();) {
      const torch::Tensor chosen = torch::tensor(loader.indices(), torch::kLong);
      torch::mse_loss(model->forward(samples.inputs.index_select(0, chosen)),
                      samples.targets.index_select(0, chosen))
          .backward();
      parallel.Step();
      for (size_t i = 0; i < model->parameters().size(); ++i) {
        EXPECT_TRUE(
            torch::allclose(model->parameters()[i].grad(), whole->parameters()[i].grad(), 1e-5, 1e-6));
      }
    }
  });
}

// A replica without samples computes on a stand-in, and even NaN from it must not spread.
TEST(AdaptiveDataParallel, WhatAnEmptyShareComputesCountsForNothing) {
  RunReplicas(3, {}, [&](Replica& replica) {
    torch::nn::Linear model = MakeModel(0.1);
    torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(1.0));
    AdaptiveDataParallel parallel(replica.job, *model, optimizer);
    AdaptiveDataLoader loader(replica.job, 1, {.batch_size = 8});
    for (loader.BeginLoop(); loader.Next();) {
      const float value = loader.weight() > 0 ? 1.0f : std::nanf("");
      model->forward(torch::full({1, 3}, value)).sum().backward();
      parallel.Step();
    }
    EXPECT_TRUE(torch::allclose(model->bias, torch::full({1}, 0.1 - 1.0), 1e-5, 1e-6));
  });
}

// What the library says when it ends the replicas, all with 1.
std::string RefusalOf(int replicas, const std::function<void(Replica&)>& body) {
  testing::internal::CaptureStderr();
  const std::vector<int> codes = RunReplicas(replicas, {}, body);
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(codes, std::vector<int>(static_cast<size_t>(replicas), 1)) << text;
  return text;
}

TEST(AdaptiveDataParallel, RefusesAnOptimiserWithParametersThatTheModelLacks) {
  const std::string text = RefusalOf(2, [](Replica& replica) {
    torch::nn::Linear model = MakeModel(0.1);
    const torch::Tensor temperature = torch::ones({4, 7}).set_requires_grad(true);
    std::vector<torch::optim::OptimizerParamGroup> groups;
    groups.emplace_back(model->parameters());
    groups.emplace_back(std::vector<torch::Tensor>{temperature});
    torch::optim::SGD optimizer(groups, torch::optim::SGDOptions(0.1));
    AdaptiveDataParallel parallel(replica.job, *model, optimizer);
  });
  EXPECT_THAT(text, HasSubstr("parameter group 1 of the optimiser holds a tensor of shape [4, 7]"));
}

TEST(AdaptiveDataParallel, RefusesParametersThatTheOptimiserIsGivenLater) {
  const std::string text = RefusalOf(2, [](Replica& replica) {
    torch::nn::Linear model = MakeModel(0.1);
    torch::optim::SGD optimizer(std::vector<torch::Tensor>{model->weight}, torch::optim::SGDOptions(0.1));
    AdaptiveDataParallel parallel(replica.job, *model, optimizer);
    optimizer.add_param_group(torch::optim::OptimizerParamGroup({model->bias}));
    model->forward(torch::ones({1, 3})).sum().backward();
    parallel.Step();
  });
  EXPECT_THAT(text, HasSubstr("given parameters after AdaptiveDataParallel was made"));
}

// Layers that are frozen at first, and others later, as in fine-tuning. Small buckets: several of them.
TEST(AdaptiveDataParallel, FollowsParametersAsTheyAreUnfrozenAndFrozen) {
  constexpr int64_t kTwelve = 12;
  const RegressionSamples samples = MakeRegressionSamples(kTwelve);
  const auto make_model = [] {
    torch::nn::Sequential model(torch::nn::Linear(3, 4), torch::nn::Linear(4, 1));
    torch::NoGradGuard no_gradients;
    double value = 0.1;
    for (torch::Tensor& parameter : model->parameters()) parameter.fill_(value += 0.1);
    for (torch::Tensor& parameter : model->ptr(0)->parameters()) parameter.set_requires_grad(false);
    return model;
  };
  const auto freeze = [](torch::nn::Sequential& model, int step) {
    for (torch::Tensor& parameter : model->ptr(0)->parameters()) parameter.set_requires_grad(step >= 2);
    for (torch::Tensor& parameter : model->ptr(1)->parameters()) parameter.set_requires_grad(step < 5);
  };
  const auto loss_of = [&](torch::nn::Sequential& model, int64_t begin, int64_t count) {
    return torch::mse_loss(model->forward(samples.inputs.narrow(0, begin, count)),
                           samples.targets.narrow(0, begin, count));
  };
  torch::nn::Sequential plain = make_model();
  torch::optim::SGD plain_optimizer(plain->parameters(), torch::optim::SGDOptions(0.1));
  for (int step = 0; step < 8; ++step) {
    freeze(plain, step);
    plain_optimizer.zero_grad();
    loss_of(plain, 0, kTwelve).backward();
    plain_optimizer.step();
  }
  for (const int replicas : {1, 2, 3}) {
    for (const int64_t micro_batches : {1, 2}) {
      std::vector<std::vector<torch::Tensor>> found(static_cast<size_t>(replicas));
      RunReplicas(replicas, {}, [&](Replica& replica) {
        torch::nn::Sequential model = make_model();
        torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1));
        AdaptiveDataParallel parallel(replica.job, *model, optimizer, {.bucket_bytes = 20});
        const int64_t share = kTwelve / replicas / micro_batches;
        for (int step = 0; step < 8; ++step) {
          for (int64_t k = 0; k < micro_batches; ++k) {
            // Between the micro-batches of a step, too.
            if (k + 1 == micro_batches) freeze(model, step);
            replica.job.core().step().SetMicroBatch({.local = share,
                                                     .step_total = kTwelve,
                                                     .last = k + 1 == micro_batches,
                                                     .initial_batch_size = kTwelve});
            parallel.ZeroGrad();
            loss_of(model, (replica.job.rank() * micro_batches + k) * share, share).backward();
            parallel.Step();
          }
        }
        for (const torch::Tensor& parameter : model->parameters()) {
          found[static_cast<size_t>(replica.job.rank())].push_back(parameter.detach().clone());
        }
      });
      for (size_t rank = 0; rank < found.size(); ++rank) {
        ASSERT_EQ(found[rank].size(), 4u);
        for (size_t i = 0; i < 4; ++i) {
          EXPECT_TRUE(torch::equal(found[rank][i], found[0][i])) << "replica " << rank;
          // What is unfrozen between two micro-batches has half a gradient in that step.
          if (micro_batches == 1) {
            EXPECT_TRUE(torch::allclose(found[rank][i], plain->parameters()[i], 1e-4, 1e-6))
                << replicas << " replicas, parameter " << i;
          }
        }
      }
    }
  }
}

// A layer under two names.
class TiedModel : public torch::nn::Module {
 public:
  TiedModel() {
    layer_ = register_module("first", MakeModel(0.1));
    register_module("second", layer_);
  }
  torch::nn::Linear layer() { return layer_; }

 private:
  torch::nn::Linear layer_{nullptr};
};

TEST(AdaptiveDataParallel, AModuleThatIsRegisteredTwiceIsCountedAndUnscaledOnce) {
  const RegressionSamples samples = MakeRegressionSamples(8);
  for (const int replicas : {1, 2}) {
    const int64_t share = 8 / replicas;
    // By whether the layer has two names: gradients, and what the statistics are.
    std::vector<torch::Tensor> gradients[2];
    std::vector<double> statistics[2];
    for (const bool tied : {false, true}) {
      RunReplicas(replicas, {}, [&](Replica& replica) {
        TiedModel model;
        torch::nn::Linear layer = model.layer();
        torch::optim::SGD optimizer(layer->parameters(), torch::optim::SGDOptions(0.1));
        GradScaler scaler({.init_scale = 1024});
        AdaptiveDataParallel parallel(
            replica.job,
            tied ? static_cast<torch::nn::Module&>(model) : static_cast<torch::nn::Module&>(*layer),
            optimizer, {.grad_scaler = &scaler, .statistics_period = 1});
        for (int64_t step = 0; step < 3; ++step) {
          replica.job.core().step().SetMicroBatch({.local = share, .step_total = 8, .initial_batch_size = 8});
          parallel.ZeroGrad();
          const int64_t begin = share * replica.job.rank();
          scaler
              .Scale(torch::mse_loss(layer->forward(samples.inputs.narrow(0, begin, share)),
                                     samples.targets.narrow(0, begin, share)))
              .backward();
          parallel.Step();
        }
        if (replica.job.rank() > 0) return;
        for (const torch::Tensor& parameter : layer->parameters()) {
          gradients[tied].push_back(parameter.grad().clone());
        }
        statistics[tied] = {parallel.SqrAvg(), parallel.VarAvg()};
      });
    }
    ASSERT_EQ(gradients[1].size(), gradients[0].size());
    for (size_t i = 0; i < gradients[0].size(); ++i) {
      EXPECT_TRUE(torch::equal(gradients[1][i], gradients[0][i])) << replicas << " replicas";
    }
    EXPECT_EQ(statistics[1], statistics[0]) << replicas << " replicas";
  }
}

// Its optimiser has its parameters twice then, and its checkpoints must not.
TEST(AdaptiveDataParallel, AModuleThatIsRegisteredTwiceComesBackFromACheckpoint) {
  TempFolder folder;
  torch::Tensor expected;
  for (const bool again : {false, true}) {
    const std::vector<int> codes = RunReplicas(2, {.checkpoint_path = folder.path()}, [&](Replica& replica) {
      TiedModel model;
      torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
      AdaptiveDataParallel parallel(replica.job, model, optimizer);
      if (again) {
        EXPECT_TRUE(torch::equal(model.layer()->weight, expected));
        EXPECT_EQ(optimizer.state().size(), 2u);
        return;
      }
      replica.job.RequestCheckpoint();
      model.layer()->forward(torch::ones({1, 3})).sum().backward();
      parallel.Step();
      replica.job.Synchronize();
      if (replica.job.rank() == 0) expected = model.layer()->weight.detach().clone();
    });
    EXPECT_EQ(codes, (std::vector<int>{0, 0}));
  }
}

TEST(AdaptiveDataParallel, AParameterThatNobodyUsedStaysAsItIs) {
  RunReplicas(2, {}, [&](Replica& replica) {
    torch::nn::Linear model = MakeModel(0.5);
    torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1).weight_decay(0.5));
    AdaptiveDataParallel parallel(replica.job, *model, optimizer);
    model->weight.sum().backward();
    parallel.Step();
    EXPECT_FALSE(model->bias.grad().defined());
    EXPECT_TRUE(torch::equal(model->bias, torch::full({1}, 0.5)));
    EXPECT_FALSE(torch::equal(model->weight, torch::full({1, 3}, 0.5)));
  });
}

// The peer is lost after this replica's backward pass: its parameters must be those of the last common step.
TEST(AdaptiveDataParallel, AStepWithoutAllReplicasIsNotTaken) {
  torch::nn::Linear survivor = MakeModel(0.5);
  const std::vector<int> codes = RunReplicas(2, {}, [&](Replica& replica) {
    torch::nn::Linear model = replica.job.rank() == 0 ? survivor : MakeModel(0.5);
    torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1));
    AdaptiveDataParallel parallel(replica.job, *model, optimizer);
    if (replica.job.rank() == 1) throw ReplicaExit{9};
    model->forward(torch::ones({1, 3})).sum().backward();
    parallel.Step();
  });
  EXPECT_EQ(codes, (std::vector<int>{kExitPeerLost, 9}));
  EXPECT_TRUE(torch::equal(survivor->weight, torch::full({1, 3}, 0.5)));
}

// Rank 0's generator goes on as if nothing had happened.
TEST(AdaptiveDataParallel, TellsTensorBoardOfItsStatistics) {
  TempFolder folder;
  RunReplicas(2, {}, [&](Replica& replica) {
    torch::nn::Linear model = MakeModel(0.1);
    torch::optim::SGD optimizer(model->parameters(), 0.1);
    AdaptiveDataParallel parallel(replica.job, *model, optimizer);
    AdaptiveDataLoader loader(replica.job, 16, {.batch_size = 8, .max_local_batch_size = 2});
    TensorBoardWriter writer(replica.job, folder.path());
    for (loader.BeginLoop(); loader.Next();) {
      model->forward(torch::ones({2, 3})).mean().backward();
      parallel.Step();
      parallel.ZeroGrad();
      if (loader.is_optimizer_step()) {
        parallel.ToTensorBoard(writer, replica.job.optimizer_steps(), "critic/");
      }
    }
  });
  const auto file = std::filesystem::directory_iterator(folder.path())->path();
  const std::string events = ReadWholeFile(file.string()).value();
  for (const char* tag : {"Gradient_Norm_Sqr", "Gradient_Variance", "Gain", "Learning_Rate_Factor",
                          "Progress", "Accum_Scale", "Accum_Count"}) {
    EXPECT_THAT(events, HasSubstr(std::string("critic/") + tag));
  }
  // Two micro-batches of two replicas, each a half of the initial batch: the records' float32 values.
  EXPECT_THAT(events, HasSubstr(std::string("critic/Accum_Count\x15\x00\x00\x00\x40", 23)));
  EXPECT_THAT(events, HasSubstr(std::string("critic/Accum_Scale\x15\x00\x00\x00\x3f", 23)));
}

TEST(AdaptiveDataParallel, RestoresTheRandomGenerator) {
  TempFolder folder;
  torch::Tensor expected;
  const auto run = [&](const std::function<void(Replica&)>& body) {
    RunReplicas(1, {.checkpoint_path = folder.path()}, [&](Replica& replica) {
      torch::nn::Linear model = MakeModel(0.5);
      torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1));
      AdaptiveDataParallel parallel(replica.job, *model, optimizer);
      body(replica);
    });
  };
  torch::manual_seed(3);
  run([&](Replica& replica) {
    replica.job.RequestCheckpoint();
    replica.job.Synchronize();
    expected = torch::rand({4});
  });
  torch::manual_seed(99);
  run([&](Replica&) { EXPECT_TRUE(torch::equal(torch::rand({4}), expected)); });
}

}  // namespace
}  // namespace adaptdl::elastic
