// One run of the experiments on adaptive batch sizes in docs/results.md: trains on handwritten digits until
// the test accuracy reaches a target, or for some epochs, and writes what was reached when. See --help, and
// scripts/reproduce-adaptivity.sh, which starts it.
//
// Training is not disturbed by testing: the model is set aside every so many samples, and what was set aside
// is tested after each epoch, when the clock stands still.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "adaptdl/adaptdl.h"
#include "examples/mnist/digits.h"
#include "nlohmann/json.hpp"
#include "torch/nn/functional/loss.h"
#include "torch/nn/modules/activation.h"
#include "torch/nn/modules/container/sequential.h"
#include "torch/nn/modules/conv.h"
#include "torch/nn/modules/linear.h"
#include "torch/nn/modules/pooling.h"
#include "torch/optim/sgd.h"
#include "torch/utils.h"

namespace {

constexpr double kMomentum = 0.9;
constexpr int64_t kPixels = int64_t{28} * 28;

struct Options {
  std::string data;
  std::string model = "convolutions";
  std::string mode = "fixed";
  int64_t batch_size = 16;
  // Of goodput.
  int64_t max_batch_size = 1024;
  // What the learning rate is meant for.
  int64_t base_batch_size = 16;
  double learning_rate = 0.01;
  uint64_t seed = 1;
  // In [0, 1]. Above 1: there is none.
  double target = 2;
  int epochs = 5;
  int64_t test_every = 800;
  // Optimiser steps of the whole job. 0: the run does not stop before its end.
  int64_t stop_after = 0;
  std::string result;
};

Options Parse(int argc, char** argv) {
  Options options;
  CLI::App app{"One training run on handwritten digits, tested as it goes on."};
  app.add_option("--data", options.data, "folder with MNIST's IDX files")->required();
  app.add_option("--model", options.model)->check(CLI::IsMember({"convolutions", "dense"}));
  app.add_option("--mode", options.mode, "plain: LibTorch alone, one replica")
      ->check(CLI::IsMember({"plain", "fixed", "goodput"}));
  app.add_option("--batch-size", options.batch_size, "samples per step; for goodput: at first");
  app.add_option("--max-batch-size", options.max_batch_size, "for goodput");
  app.add_option("--base-batch-size", options.base_batch_size, "what the learning rate is meant for");
  app.add_option("--lr", options.learning_rate);
  app.add_option("--seed", options.seed);
  app.add_option("--target", options.target, "test accuracy to stop at, in [0, 1]");
  app.add_option("--epochs", options.epochs, "at most");
  app.add_option("--test-every", options.test_every, "samples between tests");
  app.add_option("--stop-after", options.stop_after,
                 "optimiser steps after which the run stops, to go on later");
  app.add_option("--result", options.result, "file to write")->required();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));  // NOLINT(concurrency-mt-unsafe): the only thread
  }
  return options;
}

double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// From images to the logarithms of the ten digits' probabilities.
class Model {
 public:
  explicit Model(const std::string& name) {
    namespace nn = torch::nn;
    if (name == "dense") {
      layers_ = nn::Sequential(nn::Flatten(), nn::Linear(kPixels, 32), nn::ReLU(), nn::Linear(32, 10));
    } else {
      layers_ = nn::Sequential(nn::Conv2d(nn::Conv2dOptions(1, 10, 5)), nn::MaxPool2d(2), nn::ReLU(),
                               nn::Conv2d(nn::Conv2dOptions(10, 20, 5)), nn::MaxPool2d(2), nn::ReLU(),
                               nn::Flatten(), nn::Linear(20 * 4 * 4, 50), nn::ReLU(), nn::Linear(50, 10));
    }
    layers_->push_back(nn::LogSoftmax(1));
  }

  torch::nn::Module& module() { return *layers_; }
  torch::Tensor LogProbabilities(const torch::Tensor& images) { return layers_->forward(images); }

  std::vector<torch::Tensor> Copy() {
    torch::NoGradGuard no_gradients;
    std::vector<torch::Tensor> copy;
    for (const torch::Tensor& parameter : module().parameters()) copy.push_back(parameter.detach().clone());
    return copy;
  }

  // Part of `digits` that the model recognises with these parameters.
  double Accuracy(const std::vector<torch::Tensor>& parameters, const mnist::Digits& digits) {
    torch::NoGradGuard no_gradients;
    const std::vector<torch::Tensor> own = Copy();
    Load(parameters);
    const int64_t count = digits.labels().size(0);
    int64_t right = 0;
    constexpr int64_t kBatch = 250;
    for (int64_t begin = 0; begin < count; begin += kBatch) {
      const int64_t size = std::min(kBatch, count - begin);
      const torch::Tensor guess = LogProbabilities(digits.images().narrow(0, begin, size)).argmax(1);
      right += guess.eq(digits.labels().narrow(0, begin, size)).sum().item<int64_t>();
    }
    Load(own);
    return static_cast<double>(right) / static_cast<double>(count);
  }

 private:
  void Load(const std::vector<torch::Tensor>& values) {
    std::vector<torch::Tensor> parameters = module().parameters();
    for (size_t i = 0; i < values.size(); ++i) parameters[i].copy_(values[i]);
  }

  torch::nn::Sequential layers_;
};

// The model as it was at some time of the training.
struct Snapshot {
  double seconds = 0;
  int64_t samples = 0;
  int64_t batch_size = 0;
  double progress = 0;
  std::vector<torch::Tensor> parameters;
};

class Run {
 public:
  explicit Run(const Options& options) : options_(options) {}

  // Around the part of training that is timed.
  void StartClock() { start_ = Seconds(); }
  void StopClock() { seconds_ += Seconds() - start_; }

  // After a step of so many samples. `progress`: in epochs of the base batch size.
  void OnStep(Model& model, int64_t samples, double progress) {
    samples_ += samples;
    ++steps_;
    if (samples_ - last_snapshot_ < options_.test_every) return;
    last_snapshot_ = samples_;
    snapshots_.push_back({seconds_ + Seconds() - start_, samples_, samples, progress, model.Copy()});
  }

  std::vector<Snapshot> TakeSnapshots() { return std::exchange(snapshots_, {}); }

  // Whether the target is reached.
  bool Note(const Snapshot& at, double accuracy) {
    curve_.push_back({{"seconds", at.seconds},
                      {"samples", at.samples},
                      {"batch_size", at.batch_size},
                      {"progress", at.progress},
                      {"accuracy", accuracy}});
    if (accuracy < options_.target) return false;
    reached_ = curve_.back();
    return true;
  }

  void Write(double final_accuracy) const {
    const nlohmann::json result = {{"final_accuracy", final_accuracy},
                                   {"seconds", seconds_},
                                   {"samples", samples_},
                                   {"steps", steps_},
                                   {"reached", reached_},
                                   {"curve", curve_}};
    std::FILE* file = std::fopen(options_.result.c_str(), "w");
    if (file == nullptr) {
      std::perror(options_.result.c_str());
      std::exit(1);  // NOLINT(concurrency-mt-unsafe): the end
    }
    std::fputs((result.dump() + "\n").c_str(), file);
    std::fclose(file);
  }

 private:
  const Options& options_;
  double start_ = 0;
  double seconds_ = 0;
  int64_t samples_ = 0;
  int64_t steps_ = 0;
  int64_t last_snapshot_ = 0;
  std::vector<Snapshot> snapshots_;
  nlohmann::json curve_ = nlohmann::json::array();
  // Null: not yet.
  nlohmann::json reached_;
};

torch::optim::SGD MakeOptimizer(const Options& options, Model& model) {
  return torch::optim::SGD(model.module().parameters(),
                           torch::optim::SGDOptions(options.learning_rate).momentum(kMomentum));
}

void TrainPlain(const Options& options, const mnist::TrainAndTest& digits) {
  Model model(options.model);
  torch::optim::SGD optimizer = MakeOptimizer(options, model);
  Run run(options);
  const int64_t size = digits.train.labels().size(0);
  for (int epoch = 0; epoch < options.epochs; ++epoch) {
    const torch::Tensor order = torch::randperm(size, torch::kLong);
    run.StartClock();
    for (int64_t begin = 0; begin < size; begin += options.batch_size) {
      const torch::Tensor chosen = order.narrow(0, begin, std::min(options.batch_size, size - begin));
      optimizer.zero_grad();
      torch::nll_loss(model.LogProbabilities(digits.train.images().index_select(0, chosen)),
                      digits.train.labels().index_select(0, chosen))
          .backward();
      optimizer.step();
    }
    run.StopClock();
  }
  run.Write(model.Accuracy(model.Copy(), digits.test));
}

void TrainElastic(const Options& options, const mnist::TrainAndTest& digits) {
  const auto job = adaptdl::Init();
  torch::manual_seed(options.seed);
  Model model(options.model);
  torch::optim::SGD optimizer = MakeOptimizer(options, model);
  adaptdl::DataLoader loader(
      *job, digits.train,
      {.batch_size = options.batch_size, .base_batch_size = options.base_batch_size, .seed = options.seed});
  if (options.mode == "goodput") loader.AutoscaleBatchSize(options.max_batch_size);
  adaptdl::AdaptiveDataParallel parallel(*job, model.module(), optimizer);
  Run run(options);
  const double epoch_steps =
      static_cast<double>(digits.train.labels().size(0)) / static_cast<double>(options.base_batch_size);

  for (int epoch : adaptdl::RemainingEpochsUntil(*job, options.epochs)) {
    (void)epoch;
    run.StartClock();
    for (auto& batch : loader) {
      parallel.ZeroGrad();
      torch::nll_loss(model.LogProbabilities(batch.data), batch.target).backward();
      parallel.Step();
      run.OnStep(model, loader.core().batch_size(), parallel.Progress() / epoch_steps);
      if (job->optimizer_steps() + 1 == options.stop_after) job->RequestStop();
    }
    run.StopClock();
    // Each replica tests its share of what was set aside.
    const std::vector<Snapshot> snapshots = run.TakeSnapshots();
    adaptdl::Accumulator accuracies(*job);
    for (size_t i = 0; i < snapshots.size() && options.target <= 1; ++i) {
      if (static_cast<int>(i) % job->num_replicas() != job->rank()) continue;
      accuracies[std::to_string(i)] += model.Accuracy(snapshots[i].parameters, digits.test);
    }
    accuracies.Synchronize();
    bool reached = false;
    for (size_t i = 0; i < snapshots.size() && options.target <= 1 && !reached; ++i) {
      reached = run.Note(snapshots[i], accuracies[std::to_string(i)]);
    }
    if (reached) break;
  }
  if (job->rank() == 0) run.Write(model.Accuracy(model.Copy(), digits.test));
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = Parse(argc, argv);
  examples::Options digits;
  digits.data = options.data;
  torch::manual_seed(options.seed);
  const mnist::TrainAndTest loaded = mnist::LoadDigits(digits);
  if (options.mode == "plain") {
    TrainPlain(options, loaded);
  } else {
    TrainElastic(options, loaded);
  }
}
