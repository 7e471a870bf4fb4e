// The job of chaos_test: trains a small network until the file "<folder>/finish" is there, or for so many
// epochs, and notes what it does (step_record.h)
// and, when the job is done, "<folder>/<pid>.weights": epochs, then all parameters. A replica for which there
// is a file "<folder>/<pid>.hang" hangs in its next step, before it exchanges anything with others.
//
// MODE says what the batch size is: "fixed", within a "band" in which replicas have equal shares, or chosen
// by "goodput", between whose decisions rank 0 makes up others.
//
//   chaos_job FOLDER MODE [EPOCHS]

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "adaptdl/adaptdl.h"
#include "libs/elastic/job/job_core.h"
#include "tests/integration/chaos/step_record.h"
#include "tests/libs/elastic/regression_samples.h"
#include "torch/nn/functional.h"
#include "torch/nn/module.h"
#include "torch/nn/modules/linear.h"
#include "torch/optim/sgd.h"
#include "torch/utils.h"

namespace {

constexpr int64_t kSamples = 120;
constexpr int64_t kBatch = 12;
// With a band: none of the numbers of replicas divides it.
constexpr int64_t kOddBatch = 13;
constexpr double kBand = 0.2;
constexpr int64_t kLargestBatch = 48;
// What a step takes when the job runs until it is told to finish: long enough for faults to fall into it.
constexpr auto kStepTime = std::chrono::milliseconds(15);
// Should no replica be left, this much is done again.
constexpr int64_t kCheckpointSteps = 100;

// Beside its weights it has one parameter per sample, whose gradient is one each time that the sample is
// used: with a learning rate of kBatch it counts the uses, downwards from 0.
class Model : public torch::nn::Module {
 public:
  Model() {
    hidden_ = register_module("hidden", torch::nn::Linear(3, 8));
    out_ = register_module("out", torch::nn::Linear(8, 1));
    uses_ = register_parameter("uses", torch::zeros({kSamples}));
    to(torch::kDouble);
    torch::NoGradGuard no_gradients;
    double value = 0.1;
    for (const torch::Tensor& weights : Weights()) weights.fill_(value = -value * 0.9);
  }

  std::vector<torch::Tensor> Weights() { return {hidden_->weight, hidden_->bias, out_->weight, out_->bias}; }
  torch::Tensor Uses() { return uses_; }

  torch::Tensor Loss(const adaptdl::elastic::RegressionSamples& samples, const torch::Tensor& indices) {
    const torch::Tensor inputs = samples.inputs.index_select(0, indices).to(torch::kDouble);
    const torch::Tensor targets = samples.targets.index_select(0, indices).to(torch::kDouble);
    const torch::Tensor outputs = out_->forward(torch::tanh(hidden_->forward(inputs)));
    return torch::nn::functional::mse_loss(outputs, targets) + uses_.index_select(0, indices).mean();
  }

 private:
  torch::nn::Linear hidden_{nullptr};
  torch::nn::Linear out_{nullptr};
  torch::Tensor uses_;
};

torch::optim::SGD MakeOptimizer(Model& model) {
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(model.Weights(), std::make_unique<torch::optim::SGDOptions>(
                                           torch::optim::SGDOptions(0.002).momentum(0.9)));
  groups.emplace_back(std::vector<torch::Tensor>{model.Uses()},
                      std::make_unique<torch::optim::SGDOptions>(static_cast<double>(kBatch)));
  return torch::optim::SGD(std::move(groups), torch::optim::SGDOptions(0.002));
}

adaptdl::DataLoaderOptions LoaderOptions(const std::string& mode) {
  if (mode == "band") return {.batch_size = kOddBatch, .seed = 3, .band = kBand};
  return {.batch_size = kBatch, .seed = 3};
}

// Now and then another batch than the one that is best.
void Propose(adaptdl::elastic::JobCore& core) {
  const int64_t step = core.progress().optimizer_steps();
  if (core.team().membership().rank != 0 || step % 3 != 0) return;
  const int64_t atomic = 1 + step * 7 % 8;
  const int64_t most = kLargestBatch / core.team().membership().world_size / atomic;
  const int64_t micro_batches = 1 + step % std::max<int64_t>(most, 1);
  const int64_t total = atomic * micro_batches * core.team().membership().world_size;
  if (total < kBatch || total > kLargestBatch) return;
  core.batches().Propose({atomic, micro_batches - 1}, core.team().membership().group);
}

void WriteWeights(const std::string& folder, int epochs, const Model& model) {
  std::ofstream file(absl::StrCat(folder, "/", getpid(), ".weights"));
  file << epochs << "\n" << std::hexfloat;
  for (const torch::Tensor& parameter : model.parameters()) {
    const torch::Tensor flat = parameter.detach().flatten();
    for (int64_t i = 0; i < flat.numel(); ++i) file << flat[i].item<double>() << "\n";
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) {
    std::fprintf(stderr, "usage: chaos_job FOLDER fixed|band|goodput [EPOCHS]\n");
    return 2;
  }
  const std::string folder = argv[1];
  const std::string mode = argv[2];
  const bool until_told = argc == 3;
  const int epochs = until_told ? std::numeric_limits<int>::max() : std::atoi(argv[3]);
  const auto job = adaptdl::Init();
  torch::set_num_threads(1);
  const auto samples = adaptdl::elastic::MakeRegressionSamples(kSamples);
  Model model;
  torch::optim::SGD optimizer = MakeOptimizer(model);
  const adaptdl::integration::StepRecord record(folder);
  const std::string hang = absl::StrCat(folder, "/", getpid(), ".hang");
  adaptdl::AdaptiveDataParallel parallel(*job, model, optimizer);
  adaptdl::AdaptiveDataLoader loader(*job, kSamples, LoaderOptions(mode));
  if (mode == "goodput") loader.AutoscaleBatchSize(kLargestBatch, {.max = 8}, /*accumulation=*/true);
  int done = 0;
  for (const int epoch : adaptdl::RemainingEpochsUntil(*job, epochs)) {
    if (loader.BeginLoop()) {
      while (loader.Next()) {
        const int64_t step = job->optimizer_steps();
        const int64_t group = job->core().team().membership().group;
        record.Begin(step, group, loader);
        if (mode == "goodput") Propose(job->core());
        if (until_told) std::this_thread::sleep_for(kStepTime);
        while (std::filesystem::exists(hang)) pause();
        parallel.ZeroGrad();
        model.Loss(samples, torch::tensor(loader.indices())).backward();
        parallel.Step();
        if (job->optimizer_steps() != step + 1) continue;
        record.End(step, group, adaptdl::integration::ChecksumOf(model, loader.batch_size()));
        if ((step + 1) % kCheckpointSteps == 0) job->RequestCheckpoint();
      }
    }
    done = epoch + 1;
    if (!until_told) continue;
    adaptdl::Accumulator told(*job);
    told["to finish"] += std::filesystem::exists(folder + "/finish") ? 1 : 0;
    told.Synchronize();
    if (told["to finish"] > 0) break;
  }
  WriteWeights(folder, done, model);
}
