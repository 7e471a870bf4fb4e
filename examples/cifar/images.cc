#include "examples/cifar/images.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "examples/cifar/cifar_file.h"
#include "examples/cifar/drawn_images.h"
#include "examples/common/report.h"
#include "torch/nn/functional/padding.h"
#include "torch/types.h"

namespace cifar {
namespace {

constexpr int64_t kShift = 4;

// Each picture shifted and mirrored by chance.
torch::Tensor Augmented(const torch::Tensor& images) {
  namespace F = torch::nn::functional;
  const torch::Tensor padded = F::pad(images, F::PadFuncOptions({kShift, kShift, kShift, kShift}));
  const torch::Tensor shifts = torch::randint(2 * kShift + 1, {images.size(0), 2}, torch::kLong);
  const torch::Tensor mirrored = torch::randint(2, {images.size(0)}, torch::kLong);
  const auto shift = shifts.accessor<int64_t, 2>();
  const auto mirror = mirrored.accessor<int64_t, 1>();
  std::vector<torch::Tensor> result;
  for (int64_t i = 0; i < images.size(0); ++i) {
    const torch::Tensor cut = padded[i].narrow(1, shift[i][0], kSide).narrow(2, shift[i][1], kSide);
    result.push_back(mirror[i] != 0 ? cut.flip(2) : cut);
  }
  return torch::stack(result);
}

Images FromPixels(const LabelledImages& images, bool augment) {
  const auto count = static_cast<int64_t>(images.labels.size());
  torch::Tensor pixels = torch::empty({count, kChannels, kSide, kSide}, torch::kByte);
  std::copy(images.pixels.begin(), images.pixels.end(), pixels.data_ptr<uint8_t>());
  torch::Tensor labels = torch::empty({count}, torch::kLong);
  std::copy(images.labels.begin(), images.labels.end(), labels.data_ptr<int64_t>());
  return Images(pixels, labels, augment);
}

LabelledImages ReadOrFail(const std::vector<std::string>& paths) {
  LabelledImages images;
  std::string error;
  for (const std::string& path : paths) {
    AppendCifarFile(path, &images, &error);
    if (!error.empty()) examples::Fail(error);
  }
  return images;
}

}  // namespace

torch::data::Example<> Images::get_batch(c10::ArrayRef<size_t> indices) {
  torch::Tensor chosen = torch::empty({static_cast<int64_t>(indices.size())}, torch::kLong);
  std::copy(indices.begin(), indices.end(), chosen.data_ptr<int64_t>());
  // Means and standard deviations of CIFAR-10's training pixels, by channel.
  const torch::Tensor mean = torch::tensor({0.4914F, 0.4822F, 0.4465F}).view({1, kChannels, 1, 1});
  const torch::Tensor deviation = torch::tensor({0.2470F, 0.2435F, 0.2616F}).view({1, kChannels, 1, 1});
  const torch::Tensor images =
      pixels_.index_select(0, chosen).to(torch::kFloat).div_(255).sub_(mean).div_(deviation);
  return {augment_ ? Augmented(images) : images, labels_.index_select(0, chosen)};
}

TrainAndTest LoadImages(const examples::Options& options) {
  if (options.data.empty()) {
    return {FromPixels(DrawImages(options.samples, options.seed), /*augment=*/true),
            FromPixels(DrawImages(std::max<int64_t>(options.samples / 5, 1), options.seed + 1), false)};
  }
  std::vector<std::string> train;
  for (int i = 1; i <= 5; ++i) train.push_back(options.data + "/data_batch_" + std::to_string(i) + ".bin");
  return {FromPixels(ReadOrFail(train), /*augment=*/true),
          FromPixels(ReadOrFail({options.data + "/test_batch.bin"}), false)};
}

}  // namespace cifar
