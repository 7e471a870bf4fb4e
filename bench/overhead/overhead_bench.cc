// What the training library costs on models of the size that GPUs are bought for: blocks of optimiser steps of a program
// made elastic, against those of the same plain LibTorch program, which zeroes and optimises alike. One replica; a GPU
// where there is one.
//
//   build/release/bench/overhead_bench
//   build/release/bench/overhead_bench --device cpu --steps 8 --transformer-batch 2 --benchmark_filter=fp32
//
// A GPU works behind the caller's back, so that not steps are compared but blocks of them, to the end of which is waited.
// Each iteration is a pair of blocks, plain and elastic first by turns. Blocks have as many steps that measure gradient
// statistics as any other.
//
// Counters: milliseconds of a plain and of an elastic step; by how much the latter is longer, in per cent, as the median
// over the pairs.

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "adaptdl/adaptdl.h"
#include "bench/overhead/median.h"
#include "bench/overhead/models.h"
#include "benchmark/benchmark.h"

namespace adaptdl::bench {
namespace {

struct Flags {
  std::string device = "auto";
  int64_t steps = 16;
  int64_t warm_up = 48;
  int64_t pairs = 5;
  int64_t resnet_batch = kResNet18.batch;
  int64_t transformer_batch = kTransformer.batch;
};

struct Setting {
  Case model;
  torch::Device device;
  torch::ScalarType precision = torch::kFloat;
  int statistics_period = 8;
  Flags flags;
};

torch::Tensor Forward(const Setting& setting, Model& model, int64_t rows) {
  const bool shorter = setting.precision != torch::kFloat;
  const Autocast autocast(setting.device.type(), torch::kBFloat16, shorter);
  return model.Loss(rows);
}

class Plain {
 public:
  explicit Plain(const Setting& setting)
      : setting_(setting), model_(setting.model.make(setting.device, setting.model.batch)) {}

  void Step(int64_t rows) {
    model_->module().zero_grad(/*set_to_none=*/true);
    Forward(setting_, *model_, rows).backward();
    model_->optimizer().step();
  }

 private:
  const Setting& setting_;
  const std::unique_ptr<Model> model_;
};

class Elastic {
 public:
  Elastic(const Setting& setting, Job& job)
      : setting_(setting),
        model_(setting.model.make(setting.device, setting.model.batch)),
        // More than it will be asked for.
        loader_(job, setting.model.batch << 20, {.batch_size = setting.model.batch, .shuffle = false}),
        parallel_(job, model_->module(), model_->optimizer(),
                  {.statistics_period = setting.statistics_period}) {
    loader_.BeginLoop();
  }

  void Step(int64_t rows) {
    loader_.Next();
    parallel_.ZeroGrad();
    Forward(setting_, *model_, rows).backward();
    parallel_.Step();
  }

 private:
  const Setting& setting_;
  const std::unique_ptr<Model> model_;
  AdaptiveDataLoader loader_;
  AdaptiveDataParallel parallel_;
};

// Of a step, in a block of them.
template <typename Program>
double SecondsOfStep(Program& program, const Setting& setting) {
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < setting.flags.steps; ++i) program.Step(setting.model.batch);
  Synchronize(setting.device);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  return seconds.count() / static_cast<double>(setting.flags.steps);
}

// With one sample, for what does not depend on how many there are: the first estimates are measured in every step, and
// kernels are loaded and chosen. Then as in a block, for the rest.
template <typename Program>
void WarmUp(Program& program, const Setting& setting) {
  for (int64_t i = 0; i < setting.flags.warm_up; ++i) program.Step(1);
  for (int64_t i = 0; i < 2; ++i) program.Step(setting.model.batch);
  Synchronize(setting.device);
}

void Overhead(benchmark::State& state, const Setting& setting, Job& job) {
  torch::manual_seed(1);
  Plain plain(setting);
  Elastic elastic(setting, job);
  WarmUp(plain, setting);
  WarmUp(elastic, setting);
  std::vector<double> plain_seconds;
  std::vector<double> elastic_seconds;
  std::vector<double> ratios;
  for ([[maybe_unused]] auto iteration : state) {
    const bool plain_first = ratios.size() % 2 == 0;
    if (plain_first) plain_seconds.push_back(SecondsOfStep(plain, setting));
    elastic_seconds.push_back(SecondsOfStep(elastic, setting));
    if (!plain_first) plain_seconds.push_back(SecondsOfStep(plain, setting));
    ratios.push_back(elastic_seconds.back() / plain_seconds.back());
    state.SetIterationTime(elastic_seconds.back());
  }
  state.counters["plain_ms"] = 1e3 * Median(plain_seconds);
  state.counters["elastic_ms"] = 1e3 * Median(elastic_seconds);
  state.counters["overhead_pct"] = 100 * (Median(ratios) - 1);
}

void Register(const Flags& flags, Job& job) {
  const torch::Device device = DeviceNamed(flags.device);
  Case resnet = kResNet18;
  Case transformer = kTransformer;
  resnet.batch = flags.resnet_batch;
  transformer.batch = flags.transformer_batch;
  for (const Case& model : {resnet, transformer}) {
    for (const torch::ScalarType precision : {torch::kFloat, torch::kBFloat16}) {
      for (const int period : {8, 1}) {
        const Setting setting{model, device, precision, period, flags};
        const std::string name = "overhead/" + model.name + "/batch:" + std::to_string(model.batch) +
                                 (precision == torch::kFloat ? "/fp32" : "/bf16") +
                                 "/statistics_every:" + std::to_string(period);
        benchmark::RegisterBenchmark(
            name.c_str(), [setting, &job](benchmark::State& state) { Overhead(state, setting, job); })
            ->Iterations(flags.pairs)
            ->UseManualTime()
            ->Unit(benchmark::kMillisecond);
      }
    }
  }
}

Flags Parse(int argc, char** argv) {
  Flags flags;
  CLI::App app{"What the training library costs a step."};
  app.add_option("--device", flags.device, "auto, cpu or cuda")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  app.add_option("--steps", flags.steps, "optimiser steps of a block, a multiple of 8")
      ->check(CLI::Range(8, 1 << 16))
      ->capture_default_str();
  app.add_option("--warm-up", flags.warm_up, "steps of one sample before the first pair, a multiple of 8")
      ->check(CLI::Range(0, 1 << 16))
      ->capture_default_str();
  app.add_option("--pairs", flags.pairs, "pairs of blocks")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--resnet-batch", flags.resnet_batch, "samples of ResNet-18's batch")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  app.add_option("--transformer-batch", flags.transformer_batch, "sequences of the transformer's batch")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  app.footer("Those of Google Benchmark come before: --benchmark_filter=REGEX, --benchmark_format=json.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));  // NOLINT(concurrency-mt-unsafe): the only thread
  }
  return flags;
}

}  // namespace
}  // namespace adaptdl::bench

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  const adaptdl::bench::Flags flags = adaptdl::bench::Parse(argc, argv);
  const auto job = adaptdl::Init();
  adaptdl::bench::Register(flags, *job);
  benchmark::RunSpecifiedBenchmarks();
}
