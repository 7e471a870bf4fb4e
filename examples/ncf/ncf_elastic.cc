// Neural collaborative filtering. ncf_plain.cc is a plain LibTorch program; ncf_elastic.cc is the same one,
// made elastic.

#include "adaptdl/adaptdl.h"
#include "examples/common/device.h"
#include "examples/common/report.h"
#include "examples/ncf/net.h"
#include "torch/data.h"
#include "torch/optim/adam.h"

int main(int argc, char** argv) {
  const examples::Options options = ncf::ParseOptions(argc, argv);
  const auto job = adaptdl::Init();
  torch::manual_seed(options.seed);
  const auto ratings = ncf::LoadRatings(options);
  ncf::Net net(ratings->users(), ratings->items(), options.width);
  const torch::Device device = examples::DeviceOf(options);
  net->to(device);
  torch::optim::Adam optimizer(net->parameters(), options.learning_rate);
  adaptdl::DataLoader loader(*job, ncf::Choices(ratings),
                             {.batch_size = options.batch_size, .seed = options.seed}, device);
  if (options.max_batch_size > options.batch_size) loader.AutoscaleBatchSize(options.max_batch_size);
  adaptdl::AdaptiveDataParallel parallel(*job, *net, optimizer);

  for (int epoch : adaptdl::RemainingEpochsUntil(*job, options.epochs)) {
    adaptdl::Accumulator sums(*job);
    for (auto& batch : *loader) {
      const auto samples = static_cast<double>(loader.core().weight());
      parallel.ZeroGrad();
      const auto loss = torch::binary_cross_entropy_with_logits(net->forward(batch.data), batch.target);
      loss.backward();
      parallel.Step();
      const auto value = loss.item<double>();
      job->Report("loss", value);
      sums["loss"] += value * samples;
      sums["samples"] += samples;
    }
    sums.Synchronize();
    const double hit_rate = ncf::HitRate(net, *ratings);
    job->Report("hit_rate", hit_rate);
    examples::ReportEpoch(epoch, sums["loss"] / sums["samples"], "hit rate", hit_rate);
  }
}
