// Neural collaborative filtering. ncf_plain.cc is a plain LibTorch program; ncf_elastic.cc is the same one,
// made elastic.

#include "examples/common/device.h"
#include "examples/common/report.h"
#include "examples/ncf/net.h"
#include "torch/data.h"
#include "torch/optim/adam.h"

int main(int argc, char** argv) {
  const examples::Options options = ncf::ParseOptions(argc, argv);
  torch::manual_seed(options.seed);
  const auto ratings = ncf::LoadRatings(options);
  ncf::Net net(ratings->users(), ratings->items(), options.width);
  const torch::Device device = examples::DeviceOf(options);
  net->to(device);
  torch::optim::Adam optimizer(net->parameters(), options.learning_rate);
  auto loader = torch::data::make_data_loader<torch::data::samplers::RandomSampler>(ncf::Choices(ratings),
                                                                                    options.batch_size);

  for (int epoch = 0; epoch < options.epochs; ++epoch) {
    examples::Sums sums;
    for (auto& batch : *loader) {
      const auto samples = static_cast<double>(batch.target.size(0));
      optimizer.zero_grad();
      const auto loss = torch::binary_cross_entropy_with_logits(net->forward(batch.data.to(device)),
                                                                batch.target.to(device));
      loss.backward();
      optimizer.step();
      sums["loss"] += loss.item<double>() * samples;
      sums["samples"] += samples;
    }
    examples::ReportEpoch(epoch, sums["loss"] / sums["samples"], "hit rate", ncf::HitRate(net, *ratings));
  }
}
