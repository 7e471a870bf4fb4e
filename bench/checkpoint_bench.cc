// What a checkpoint costs the training: the time for which it stands still, against a plain copy of the same
// bytes in the same run.

#include <stdlib.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "adaptdl/job.h"
#include "benchmark/benchmark.h"
#include "libs/comm/in_process_communicator.h"
#include "libs/elastic/job_core.h"
#include "libs/elastic/standalone_control_plane.h"
#include "libs/elastic/tensor_states.h"
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

// Plain copies of the same bytes, into memory that was touched before: tensor by tensor as they lie, and in
// one piece. From some size on, which a tensor seldom has, one memcpy() goes past the caches and is faster.
class Copier {
 public:
  Copier(const Training& training, size_t bytes) : from_(bytes, 'x'), to_(bytes, 'y') {
    for (const torch::Tensor& parameter : training.model->parameters()) {
      for (int i = 0; i < 3; ++i) tensors_.push_back(parameter.nbytes());
    }
  }

  void Copy() {
    double start = Seconds();
    size_t at = 0;
    for (size_t bytes : tensors_) {
      std::memcpy(to_.data() + at, from_.data() + at, bytes);
      at += bytes;
    }
    benchmark::ClobberMemory();
    by_tensor_ += Seconds() - start;
    start = Seconds();
    std::memcpy(to_.data(), from_.data(), from_.size());
    benchmark::ClobberMemory();
    in_one_ += Seconds() - start;
  }

  // `snapshots`: seconds of as many snapshots as there were copies.
  void Report(benchmark::State& state, double snapshots) const {
    state.counters["MB"] = static_cast<double>(from_.size()) / 1e6;
    state.counters["per_copy_by_tensor"] = snapshots / by_tensor_;
    state.counters["per_copy_in_one"] = snapshots / in_one_;
  }

 private:
  const std::vector<char> from_;
  std::vector<char> to_;
  std::vector<size_t> tensors_;
  double by_tensor_ = 0;
  double in_one_ = 0;
};

// The copy of the states alone. Argument: layers.
void BM_Snapshot(benchmark::State& state) {
  Training training(state.range(0));
  ModuleState model("model", training.model.get());
  OptimizerState optimizer("optimizer", training.model.get(), training.optimizer.get());
  std::string model_bytes, optimizer_bytes;
  const auto save = [&] {
    model_bytes.clear();
    optimizer_bytes.clear();
    model.SaveInto(&model_bytes);
    optimizer.SaveInto(&optimizer_bytes);
  };
  save();
  const size_t bytes = model_bytes.size() + optimizer_bytes.size();
  Copier copier(training, bytes);
  double snapshots = 0;
  for (auto _ : state) {
    const double start = Seconds();
    save();
    const double duration = Seconds() - start;
    state.SetIterationTime(duration);
    snapshots += duration;
    copier.Copy();
  }
  copier.Report(state, snapshots);
}
BENCHMARK(BM_Snapshot)->Arg(1)->Arg(16)->UseManualTime()->Unit(benchmark::kMillisecond);

std::unique_ptr<Job> MakeJob(const std::string& folder) {
  JobDependencies dependencies;
  dependencies.environment.checkpoint_path = folder;
  dependencies.control = std::make_unique<StandaloneControlPlane>(dependencies.environment);
  dependencies.communicator = std::move(comm::CreateInProcessGroup(1).front());
  dependencies.exit = [](int code) { std::_Exit(code); };
  dependencies.seconds = Seconds;
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
    const size_t bytes = model.Save().size() + optimizer.Save().size();
    Copier copier(training, bytes);
    const auto checkpoint = [&] {
      job->RequestCheckpoint();
      const double start = Seconds();
      job->Synchronize();
      const double duration = Seconds() - start;
      job->core().AwaitWriter();
      return duration;
    };
    checkpoint();
    double snapshots = 0;
    for (auto _ : state) {
      const double duration = checkpoint();
      state.SetIterationTime(duration);
      snapshots += duration;
      copier.Copy();
    }
    copier.Report(state, snapshots);
  }
  std::filesystem::remove_all(folder);
}
BENCHMARK(BM_Stall)->Arg(1)->Arg(16)->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(20);

}  // namespace
}  // namespace adaptdl::elastic
