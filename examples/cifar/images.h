// Pictures as a LibTorch data set.

#ifndef ADAPTDL_EXAMPLES_CIFAR_IMAGES_H_
#define ADAPTDL_EXAMPLES_CIFAR_IMAGES_H_

#include <cstddef>

#include "examples/common/options.h"
#include "torch/data/datasets/base.h"
#include "torch/data/example.h"

namespace cifar {

// Pictures of shape [3, 32, 32], normalised, with labels 0 to 9. Copies share the pictures.
class Images : public torch::data::datasets::BatchDataset<Images, torch::data::Example<>> {
 public:
  // `pixels`: bytes, [count, 3, 32, 32]. `augment`: whether each picture comes shifted by up to 4 pixels and
  // perhaps mirrored, as LibTorch's random generator wants it.
  Images(torch::Tensor pixels, torch::Tensor labels, bool augment)
      : pixels_(std::move(pixels)), labels_(std::move(labels)), augment_(augment) {}

  torch::data::Example<> get_batch(c10::ArrayRef<size_t> indices) override;
  torch::optional<size_t> size() const override { return static_cast<size_t>(labels_.size(0)); }

 private:
  torch::Tensor pixels_;
  torch::Tensor labels_;
  bool augment_;
};

struct TrainAndTest {
  Images train;
  Images test;
};

// From the folder options.data; drawn without one. Ends the process with a message if a file cannot be read.
TrainAndTest LoadImages(const examples::Options& options);

}  // namespace cifar

#endif  // ADAPTDL_EXAMPLES_CIFAR_IMAGES_H_
