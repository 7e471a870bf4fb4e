// What a checkpoint costs the training: the time for which it stands still, against a plain copy of the same
// bytes in the same run.

#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "adaptdl/job.h"
#include "benchmark/benchmark.h"
#include "libs/elastic/control/standalone_control_plane.h"
#include "libs/elastic/host/process_host.h"
#include "libs/elastic/job/job_core.h"
#include "libs/elastic/torch/optimizer_state.h"
#include "libs/elastic/torch/tensor_states.h"
#include "torch/nn/modules/container/sequential.h"
#include "torch/nn/modules/linear.h"
#include "torch/optim/adam.h"

namespace adaptdl::elastic {
namespace {

double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// A model of `layers` times 4 MB and its optimiser, which holds twice as much.
struct Training {
  explicit Training(int64_t layers) {
    for (int64_t i = 0; i < layers; ++i) model->push_back(torch::nn::Linear(1024, 1024));
    optimizer = std::make_unique<torch::optim::Adam>(model->parameters(), torch::optim::AdamOptions(1e-3));
    for (torch::Tensor& parameter : model->parameters())
      parameter.mutable_grad() = torch::ones_like(parameter);
    optimizer->step();
  }
  torch::nn::Sequential model;
  std::unique_ptr<torch::optim::Adam> optimizer;
};

// Fills the caches with something else: between checkpoints a training step has had them.
void ClearCaches() {
  static std::vector<char> other(size_t{96} << 20);
  for (size_t i = 0; i < other.size(); i += 64) ++other[i];
  benchmark::ClobberMemory();
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

template <typename Body>
double TimeOf(const Body& body) {
  ClearCaches();
  const double start = Seconds();
  body();
  benchmark::ClobberMemory();
  return Seconds() - start;
}

// Times of snapshots, and of plain copies of as many bytes into memory that was touched before: tensor by
// tensor as they lie, and in one piece by one memcpy(). All with cold caches, in turns; medians count.
class Comparison {
 public:
  Comparison(const Training& training, size_t bytes) : from_(bytes, 'x'), to_(bytes, 'y') {
    for (const torch::Tensor& parameter : training.model->parameters()) {
      for (int i = 0; i < 3; ++i) tensors_.push_back(parameter.nbytes());
    }
  }

  void Add(double snapshot) {
    snapshots_.push_back(snapshot);
    by_tensor_.push_back(TimeOf([this] {
      size_t at = 0;
      for (size_t bytes : tensors_) {
        std::memcpy(to_.data() + at, from_.data() + at, bytes);
        at += bytes;
      }
    }));
    in_one_.push_back(TimeOf([this] { std::memcpy(to_.data(), from_.data(), from_.size()); }));
  }

  void Report(benchmark::State& state) const {
    state.counters["MB"] = static_cast<double>(from_.size()) / 1e6;
    state.counters["median_ms"] = 1e3 * Median(snapshots_);
    state.counters["per_copy_by_tensor"] = Median(snapshots_) / Median(by_tensor_);
    state.counters["per_copy_in_one"] = Median(snapshots_) / Median(in_one_);
  }

 private:
  const std::vector<char> from_;
  std::vector<char> to_;
  std::vector<size_t> tensors_;
  std::vector<double> snapshots_;
  std::vector<double> by_tensor_;
  std::vector<double> in_one_;
};

// The copy of the states alone. Argument: layers.
void BM_Snapshot(benchmark::State& state) {
  Training training(state.range(0));
  ModuleState model("model", training.model.get());
  OptimizerState optimizer("optimizer", training.model.get(), training.optimizer.get());
  std::string model_bytes, optimizer_bytes;
  const auto save = [&] {
    model.SaveInto(&model_bytes);
    optimizer.SaveInto(&optimizer_bytes);
  };
  save();
  Comparison comparison(training, model_bytes.size() + optimizer_bytes.size());
  for (auto _ : state) {
    const double duration = TimeOf(save);
    state.SetIterationTime(duration);
    comparison.Add(duration);
  }
  comparison.Report(state);
}
BENCHMARK(BM_Snapshot)->Arg(1)->Arg(16)->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(40);

std::unique_ptr<Job> MakeJob(const std::string& folder) {
  JobDependencies dependencies;
  dependencies.environment.checkpoint_path = folder;
  dependencies.control = std::make_unique<StandaloneControlPlane>(dependencies.environment);
  dependencies.transport = TransportOfOne();
  dependencies.host = ProcessHost();
  auto core = JobCore::Create(std::move(dependencies));
  if (!core.ok()) std::abort();
  return std::make_unique<Job>(*std::move(core));
}

// All that a training step waits for, agreement and hand-over included. Argument: layers.
void BM_Stall(benchmark::State& state) {
  std::string folder = (std::filesystem::temp_directory_path() / "checkpoint-bench-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) std::abort();
  {
    Training training(state.range(0));
    const std::unique_ptr<Job> job = MakeJob(folder);
    ModuleState model("model", training.model.get());
    OptimizerState optimizer("optimizer", training.model.get(), training.optimizer.get());
    job->Register(&model);
    job->Register(&optimizer);
    Comparison comparison(training, model.Save().size() + optimizer.Save().size());
    const auto checkpoint = [&] {
      job->RequestCheckpoint();
      const double duration = TimeOf([&] { job->Synchronize(); });
      (void)job->core().checkpoints().AwaitWritten();
      return duration;
    };
    checkpoint();
    for (auto _ : state) {
      const double duration = checkpoint();
      state.SetIterationTime(duration);
      comparison.Add(duration);
    }
    comparison.Report(state);
  }
  std::filesystem::remove_all(folder);
}
BENCHMARK(BM_Stall)->Arg(1)->Arg(16)->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(40);

}  // namespace
}  // namespace adaptdl::elastic
