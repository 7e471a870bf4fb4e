#include "examples/ncf/net.h"

#include <string>
#include <vector>

#include "examples/common/device.h"
#include "examples/common/report.h"
#include "torch/nn/modules/activation.h"
#include "torch/types.h"
#include "torch/utils.h"

namespace ncf {
namespace {

// Items that a user did not choose, for each one that they did.
constexpr uint64_t kNegatives = 4;
constexpr int64_t kCandidates = 100;
constexpr int64_t kBest = 10;

// Pairs one after the other.
torch::Tensor PairsOf(const std::vector<int64_t>& numbers) {
  return torch::tensor(numbers, torch::kLong).view({-1, 2});
}

}  // namespace

torch::data::Example<> Choices::get_batch(c10::ArrayRef<size_t> indices) {
  std::vector<int64_t> pairs;
  std::vector<float> chosen;
  for (const size_t index : indices) {
    const Choice& choice = ratings_->train()[index / (1 + kNegatives)];
    const bool positive = index % (1 + kNegatives) == 0;
    pairs.push_back(choice.user);
    pairs.push_back(positive ? choice.item : ratings_->NotChosen(choice.user, index));
    chosen.push_back(positive ? 1 : 0);
  }
  return {PairsOf(pairs), torch::tensor(chosen)};
}

torch::optional<size_t> Choices::size() const { return ratings_->train().size() * (1 + kNegatives); }

NetImpl::NetImpl(int64_t users, int64_t items, int64_t width)
    : user_factors_(register_module("user_factors", torch::nn::Embedding(users, width))),
      item_factors_(register_module("item_factors", torch::nn::Embedding(items, width))),
      user_features_(register_module("user_features", torch::nn::Embedding(users, width))),
      item_features_(register_module("item_features", torch::nn::Embedding(items, width))),
      layers_(register_module("layers",
                              torch::nn::Sequential(torch::nn::Linear(2 * width, width), torch::nn::ReLU(),
                                                    torch::nn::Linear(width, width / 2), torch::nn::ReLU()))),
      out_(register_module("out", torch::nn::Linear(width + width / 2, 1))) {
  torch::NoGradGuard no_gradients;
  for (const auto& embedding : {user_factors_, item_factors_, user_features_, item_features_}) {
    embedding->weight.mul_(0.1);
  }
}

torch::Tensor NetImpl::forward(const torch::Tensor& users_and_items) {
  const torch::Tensor user = users_and_items.select(1, 0);
  const torch::Tensor item = users_and_items.select(1, 1);
  const torch::Tensor product = user_factors_->forward(user) * item_factors_->forward(item);
  const torch::Tensor features =
      layers_->forward(torch::cat({user_features_->forward(user), item_features_->forward(item)}, 1));
  return out_->forward(torch::cat({product, features}, 1)).squeeze(1);
}

examples::Options ParseOptions(int argc, char** argv) {
  return examples::ParseOptions(
      argc, argv,
      {.what = "Learns what users will choose from what they chose.",
       .data =
           "file with lines of \"user item ...\", such as MovieLens' u.data; without it choices are made up",
       .samples = "choices to make up when there is no --data",
       .width = "size of the embeddings"},
      {.samples = 20'000, .epochs = 5, .batch_size = 256, .learning_rate = 1e-3, .width = 32});
}

std::shared_ptr<const Ratings> LoadRatings(const examples::Options& options) {
  if (options.data.empty()) return std::make_shared<Ratings>(MakeUpChoices(options.samples, options.seed));
  std::string error;
  const std::vector<Choice> choices = ReadChoices(options.data, &error);
  if (!error.empty()) examples::Fail(error);
  return std::make_shared<Ratings>(choices);
}

double HitRate(Net& net, const Ratings& ratings) {
  torch::NoGradGuard no_gradients;
  const torch::Device device = examples::DeviceOf(*net);
  double hits = 0;
  for (const Choice& choice : ratings.test()) {
    std::vector<int64_t> pairs = {choice.user, choice.item};
    for (int64_t i = 1; i < kCandidates; ++i) {
      pairs.push_back(choice.user);
      pairs.push_back(ratings.NotChosen(choice.user, static_cast<uint64_t>(i)));
    }
    const torch::Tensor scores = net->forward(PairsOf(pairs).to(device));
    if (scores.gt(scores[0]).sum().item<int64_t>() < kBest) ++hits;
  }
  return hits / static_cast<double>(ratings.test().size());
}

}  // namespace ncf
