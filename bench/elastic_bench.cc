// What the training library costs: optimiser steps of a program made elastic, against those of the same plain
// LibTorch program. The two take turns in one run, so that both see the same machine; one thread, one
// replica.
//
//   build/release/bench/elastic_bench
//
// Counters: milliseconds of a plain and of an elastic step, medians, and by how much the latter is longer.

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "adaptdl/adaptdl.h"
#include "benchmark/benchmark.h"
#include "libs/comm/in_process_communicator.h"
#include "libs/elastic/job_core.h"
#include "libs/elastic/standalone_control_plane.h"
#include "torch/data.h"
#include "torch/nn/functional.h"
#include "torch/nn/modules/conv.h"
#include "torch/nn/modules/linear.h"
#include "torch/optim/sgd.h"
#include "torch/utils.h"

namespace adaptdl {
namespace {

double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The CNN of PyTorch's own MNIST example: 1.2 million parameters, nearly all in one linear layer.
struct NetImpl : torch::nn::Module {
  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(conv1->forward(x));
    x = torch::max_pool2d(torch::relu(conv2->forward(x)), 2);
    x = torch::relu(linear1->forward(x.flatten(1)));
    return torch::log_softmax(linear2->forward(x), 1);
  }
  torch::nn::Conv2d conv1 = register_module("conv1", torch::nn::Conv2d(1, 32, 3));
  torch::nn::Conv2d conv2 = register_module("conv2", torch::nn::Conv2d(32, 64, 3));
  torch::nn::Linear linear1 = register_module("linear1", torch::nn::Linear(9216, 128));
  torch::nn::Linear linear2 = register_module("linear2", torch::nn::Linear(128, 10));
};
TORCH_MODULE(Net);

// Images in main memory: the time of a step does not depend on what they show.
class Images : public torch::data::datasets::Dataset<Images> {
 public:
  torch::data::Example<> get(size_t index) override {
    return {images_[static_cast<int64_t>(index)], labels_[static_cast<int64_t>(index)]};
  }
  torch::optional<size_t> size() const override { return static_cast<size_t>(labels_.size(0)); }

 private:
  torch::Tensor images_ = torch::rand({8192, 1, 28, 28});
  torch::Tensor labels_ = torch::randint(10, {8192}, torch::kLong);
};

using Stacked = decltype(Images().map(torch::data::transforms::Stack<>()));

torch::optim::SGD MakeOptimizer(Net& net) {
  return torch::optim::SGD(net->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
}

class Plain {
 public:
  Plain(const Stacked& images, int64_t batch)
      : loader_(torch::data::make_data_loader<torch::data::samplers::RandomSampler>(
            images, static_cast<size_t>(batch))),
        optimizer_(MakeOptimizer(net_)) {}

  void Step() {
    if (!at_ || *at_ == loader_->end()) {
      at_.emplace(loader_->begin());
    }
    auto& batch = **at_;
    optimizer_.zero_grad();
    torch::nll_loss(net_->forward(batch.data), batch.target).backward();
    optimizer_.step();
    ++*at_;
  }

 private:
  Net net_;
  using Loader = decltype(torch::data::make_data_loader<torch::data::samplers::RandomSampler>(
      std::declval<Stacked>(), size_t{1}));
  Loader loader_;
  torch::optim::SGD optimizer_;
  std::optional<decltype(std::declval<Loader>()->begin())> at_;
};

std::unique_ptr<Job> StandaloneJob() {
  elastic::JobDependencies dependencies;
  dependencies.control = std::make_unique<elastic::StandaloneControlPlane>(dependencies.environment);
  dependencies.communicator = std::move(comm::CreateInProcessGroup(1).front());
  dependencies.exit = [](int code) { std::exit(code); };
  dependencies.seconds = Seconds;
  return std::make_unique<Job>(*elastic::JobCore::Create(std::move(dependencies)));
}

class Elastic {
 public:
  Elastic(const Stacked& images, int64_t batch)
      : job_(StandaloneJob()),
        loader_(*job_, images, {.batch_size = batch}),
        optimizer_(MakeOptimizer(net_)),
        parallel_(*job_, *net_, optimizer_) {}

  void Step() {
    if (!at_ || !(*at_ != loader_.end())) {
      at_.reset();
      at_.emplace(&loader_);
    }
    auto& batch = **at_;
    parallel_.ZeroGrad();
    torch::nll_loss(net_->forward(batch.data), batch.target).backward();
    parallel_.Step();
    ++*at_;
  }

 private:
  std::unique_ptr<Job> job_;
  Net net_;
  DataLoader<Stacked> loader_;
  torch::optim::SGD optimizer_;
  AdaptiveDataParallel parallel_;
  std::optional<DataLoader<Stacked>::Iterator> at_;
};

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

void Overhead(benchmark::State& state) {
  torch::set_num_threads(1);
  const Stacked images = Images().map(torch::data::transforms::Stack<>());
  Plain plain(images, state.range(0));
  Elastic elastic(images, state.range(0));
  std::vector<double> plain_times;
  std::vector<double> elastic_times;
  const auto time = [](auto& program, std::vector<double>* times) {
    const double start = Seconds();
    program.Step();
    times->push_back(Seconds() - start);
  };
  for (int warm_up = 0; warm_up < 5; ++warm_up) {
    plain.Step();
    elastic.Step();
  }
  double plain_sum = 0;
  double elastic_sum = 0;
  for ([[maybe_unused]] auto iteration : state) {
    time(plain, &plain_times);
    time(elastic, &elastic_times);
    plain_sum += plain_times.back();
    elastic_sum += elastic_times.back();
  }
  const double plain_median = Median(plain_times);
  const double elastic_median = Median(elastic_times);
  state.counters["plain_ms"] = 1e3 * plain_median;
  state.counters["elastic_ms"] = 1e3 * elastic_median;
  state.counters["overhead_pct"] = 100 * (elastic_median / plain_median - 1);
  state.counters["mean_overhead_pct"] = 100 * (elastic_sum / plain_sum - 1);
}

BENCHMARK(Overhead)
    ->Name("overhead")
    ->ArgName("batch")
    ->Arg(8)
    ->Arg(64)
    ->Unit(benchmark::kMillisecond)
    ->MinTime(20);

}  // namespace
}  // namespace adaptdl

BENCHMARK_MAIN();
