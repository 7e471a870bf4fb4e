// Fits a line, as a program outside this project would.

#include <cstdio>
#include <utility>
#include <vector>

#include "adaptdl/adaptdl.h"
#include "torch/data.h"
#include "torch/nn/functional/loss.h"
#include "torch/nn/modules/linear.h"
#include "torch/optim/sgd.h"

namespace {

// y = 3 x + 1.
class Line : public torch::data::datasets::BatchDataset<Line, torch::data::Example<>> {
 public:
  torch::data::Example<> get_batch(c10::ArrayRef<size_t> indices) override {
    std::vector<float> x;
    for (const size_t index : indices) x.push_back(static_cast<float>(index) / 64 - 1);
    const torch::Tensor data = torch::tensor(x).unsqueeze(1);
    return {data, data * 3 + 1};
  }
  torch::optional<size_t> size() const override { return 128; }
};

}  // namespace

int main() {
  const auto job = adaptdl::Init();
  torch::manual_seed(1);
  torch::nn::Linear model(1, 1);
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  adaptdl::DataLoader loader(*job, Line(), {.batch_size = 16});
  adaptdl::AdaptiveDataParallel parallel(*job, *model, optimizer);
  for (int epoch : adaptdl::RemainingEpochsUntil(*job, 20)) {
    adaptdl::Accumulator sums(*job);
    for (auto& batch : loader) {
      parallel.ZeroGrad();
      const auto loss = torch::mse_loss(model->forward(batch.data), batch.target);
      loss.backward();
      parallel.Step();
      sums["loss"] += loss.item<double>() * batch.data.size(0);
    }
    sums.Synchronize();
    if (job->rank() == 0) std::printf("epoch %d: loss %.4f\n", epoch + 1, sums["loss"] / 128);
  }
  std::printf("slope %.2f, intercept %.2f\n", model->weight.item<double>(), model->bias.item<double>());
}
