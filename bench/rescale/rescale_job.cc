// The job of rescale_bench: trains until it is stopped, on made-up input, and notes when each step began and
// ended, in "<folder>/<pid>.steps": lines of "<group> <begin> <end>", in nanoseconds of the monotonic clock.

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "adaptdl/adaptdl.h"
#include "examples/mnist/net.h"
#include "libs/elastic/job/job_core.h"
#include "torch/nn/modules/linear.h"
#include "torch/optim/adam.h"
#include "torch/optim/sgd.h"
#include "torch/utils.h"

namespace {

int64_t Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// The digits' network, or one layer of about so many parameters.
class Model {
 public:
  explicit Model(int64_t parameters) {
    if (parameters == 0) {
      digits_ = mnist::Net();
      return;
    }
    side_ = static_cast<int64_t>(std::sqrt(static_cast<double>(parameters)));
    layer_ = torch::nn::Linear(side_, side_);
  }

  torch::nn::Module& module() {
    if (layer_.is_empty()) return *digits_;
    return *layer_;
  }

  torch::Tensor Loss(int64_t samples) {
    if (!layer_.is_empty()) return layer_->forward(torch::rand({samples, side_})).square().mean();
    const torch::Tensor labels = torch::zeros({samples}, torch::kLong);
    return torch::nll_loss(digits_->forward(torch::rand({samples, 1, 28, 28})), labels);
  }

 private:
  mnist::Net digits_{nullptr};
  torch::nn::Linear layer_{nullptr};
  int64_t side_ = 0;
};

// The digits' network as its example trains it; the large one with Adam, whose state is twice its parameters'.
std::unique_ptr<torch::optim::Optimizer> MakeOptimizer(Model& model, int64_t parameters) {
  const std::vector<torch::Tensor> trained = model.module().parameters();
  if (parameters > 0) return std::make_unique<torch::optim::Adam>(trained, torch::optim::AdamOptions(1e-4));
  return std::make_unique<torch::optim::SGD>(trained, torch::optim::SGDOptions(1e-4).momentum(0.9));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const std::string folder = argv[1];
  const int64_t parameters = std::strtoll(argv[2], nullptr, 10);
  const int64_t batch_size = std::strtoll(argv[3], nullptr, 10);
  const auto job = adaptdl::Init();
  torch::set_num_threads(1);
  Model model(parameters);
  const std::unique_ptr<torch::optim::Optimizer> optimizer = MakeOptimizer(model, parameters);
  const int file =
      open(absl::StrCat(folder, "/", getpid(), ".steps").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  if (file < 0) return 3;
  adaptdl::AdaptiveDataParallel parallel(*job, model.module(), *optimizer);
  constexpr int64_t kForever = int64_t{1} << 40;
  adaptdl::AdaptiveDataLoader loader(*job, kForever, {.batch_size = batch_size, .shuffle = false});
  for (loader.BeginLoop(); loader.Next();) {
    const int64_t group = job->core().team().membership().group;
    const int64_t begin = Now();
    parallel.ZeroGrad();
    model.Loss(static_cast<int64_t>(loader.indices().size())).backward();
    parallel.Step();
    if (job->step_is_void()) continue;
    const std::string line = absl::StrCat(group, " ", begin, " ", Now(), "\n");
    if (write(file, line.data(), line.size()) < 0) return 3;
  }
}
