#include "examples/mnist/digits.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "examples/mnist/drawn_digits.h"
#include "examples/mnist/idx_file.h"
#include "torch/types.h"

namespace mnist {
namespace {

Digits FromPixels(const LabelledImages& images) {
  const auto count = static_cast<int64_t>(images.labels.size());
  torch::Tensor pixels = torch::empty({count, 1, kImageSide, kImageSide}, torch::kByte);
  std::copy(images.pixels.begin(), images.pixels.end(), pixels.data_ptr<uint8_t>());
  torch::Tensor labels = torch::empty({count}, torch::kLong);
  std::copy(images.labels.begin(), images.labels.end(), labels.data_ptr<int64_t>());
  // Mean and standard deviation of MNIST's training pixels.
  return Digits(pixels.to(torch::kFloat).div_(255).sub_(0.1307).div_(0.3081), labels);
}

TrainAndTest Split(const Digits& all) {
  const int64_t count = all.labels().size(0);
  const int64_t train = count * 8 / 10;
  return {Digits(all.images().narrow(0, 0, train), all.labels().narrow(0, 0, train)),
          Digits(all.images().narrow(0, train, count - train), all.labels().narrow(0, train, count - train))};
}

LabelledImages ReadOrDie(const std::string& folder, const std::string& prefix) {
  std::string error;
  LabelledImages images = ReadIdxPair(folder, prefix, &error);
  if (error.empty()) return images;
  std::fprintf(stderr, "adaptdl-mnist: %s\n", error.c_str());
  std::exit(1);  // NOLINT(concurrency-mt-unsafe): before any other thread
}

}  // namespace

torch::data::Example<> Digits::get_batch(c10::ArrayRef<size_t> indices) {
  torch::Tensor chosen = torch::empty({static_cast<int64_t>(indices.size())}, torch::kLong);
  std::copy(indices.begin(), indices.end(), chosen.data_ptr<int64_t>());
  return {images_.index_select(0, chosen), labels_.index_select(0, chosen)};
}

TrainAndTest LoadDigits(const examples::Options& options) {
  if (options.data.empty()) return Split(FromPixels(DrawDigits(options.samples, options.seed)));
  const bool has_train = HasIdxPair(options.data, "train");
  const bool has_test = HasIdxPair(options.data, "t10k");
  if (has_train && has_test) {
    return {FromPixels(ReadOrDie(options.data, "train")), FromPixels(ReadOrDie(options.data, "t10k"))};
  }
  return Split(FromPixels(ReadOrDie(options.data, has_train ? "train" : "t10k")));
}

}  // namespace mnist
