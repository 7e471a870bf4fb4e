// The network, its data set, and how well it does.

#ifndef ADAPTDL_EXAMPLES_NCF_NET_H_
#define ADAPTDL_EXAMPLES_NCF_NET_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "examples/common/options.h"
#include "examples/ncf/ratings.h"
#include "torch/data/datasets/base.h"
#include "torch/data/example.h"
#include "torch/nn/modules/container/sequential.h"
#include "torch/nn/modules/embedding.h"
#include "torch/nn/modules/linear.h"
#include "torch/nn/pimpl.h"

namespace ncf {

// Each choice, followed by items that its user did not choose. Data: users and items, [batch, 2]; target: 1
// for what was chosen, else 0. Copies share the ratings.
class Choices : public torch::data::datasets::BatchDataset<Choices, torch::data::Example<>> {
 public:
  explicit Choices(std::shared_ptr<const Ratings> ratings) : ratings_(std::move(ratings)) {}

  torch::data::Example<> get_batch(c10::ArrayRef<size_t> indices) override;
  torch::optional<size_t> size() const override;

 private:
  std::shared_ptr<const Ratings> ratings_;
};

// NeuMF (He et al., "Neural Collaborative Filtering", 2017): the product of two embeddings, and a network
// over two others, together.
class NetImpl : public torch::nn::Module {
 public:
  NetImpl(int64_t users, int64_t items, int64_t width);

  // Logits that the user chooses the item, [batch].
  torch::Tensor forward(const torch::Tensor& users_and_items);

 private:
  torch::nn::Embedding user_factors_{nullptr};
  torch::nn::Embedding item_factors_{nullptr};
  torch::nn::Embedding user_features_{nullptr};
  torch::nn::Embedding item_features_{nullptr};
  torch::nn::Sequential layers_{nullptr};
  torch::nn::Linear out_{nullptr};
};
TORCH_MODULE(Net);

examples::Options ParseOptions(int argc, char** argv);

// From the file options.data, made up without one. Ends the process with a message if it cannot be read.
std::shared_ptr<const Ratings> LoadRatings(const examples::Options& options);

// Part of the users whose last item is among the ten best of itself and 99 that they did not choose.
double HitRate(Net& net, const Ratings& ratings);

}  // namespace ncf

#endif  // ADAPTDL_EXAMPLES_NCF_NET_H_
