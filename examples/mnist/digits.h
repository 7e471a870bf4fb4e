// Images of handwritten digits as a LibTorch data set.

#ifndef ADAPTDL_EXAMPLES_MNIST_DIGITS_H_
#define ADAPTDL_EXAMPLES_MNIST_DIGITS_H_

#include <cstddef>

#include "examples/common/options.h"
#include "torch/data/datasets/base.h"
#include "torch/data/example.h"

namespace mnist {

// Images of shape [1, 28, 28], normalised, with labels 0 to 9. Copies share the images.
class Digits : public torch::data::datasets::BatchDataset<Digits, torch::data::Example<>> {
 public:
  Digits(torch::Tensor images, torch::Tensor labels)
      : images_(std::move(images)), labels_(std::move(labels)) {}

  torch::data::Example<> get_batch(c10::ArrayRef<size_t> indices) override;
  torch::optional<size_t> size() const override { return static_cast<size_t>(labels_.size(0)); }

  const torch::Tensor& images() const { return images_; }
  const torch::Tensor& labels() const { return labels_; }

 private:
  torch::Tensor images_;
  torch::Tensor labels_;
};

struct TrainAndTest {
  Digits train;
  Digits test;
};

// From options.data: the train-* files for training and the t10k-* files for testing; if only one pair is
// there, its first 80 % and the rest. Without options.data the digits are drawn and split likewise. Ends the
// process with a message that names the file if one cannot be read.
TrainAndTest LoadDigits(const examples::Options& options);

}  // namespace mnist

#endif  // ADAPTDL_EXAMPLES_MNIST_DIGITS_H_
