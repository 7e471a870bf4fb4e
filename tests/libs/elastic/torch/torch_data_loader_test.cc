// LibTorch's data sets and tensors under what happens to a loop: workers, micro-batches, failures of memory.

#include "adaptdl/torch_data_loader.h"

#include <cstdint>
#include <functional>
#include <new>
#include <stdexcept>
#include <vector>

#include "adaptdl/data_parallel.h"
#include "gtest/gtest.h"
#include "tests/libs/elastic/replica_threads.h"
#include "torch/data.h"
#include "torch/nn/functional.h"
#include "torch/nn/modules/linear.h"
#include "torch/nn/pimpl.h"
#include "torch/optim/sgd.h"
#include "torch/utils.h"

namespace adaptdl::elastic {
namespace {

constexpr int64_t kSize = 40;

// Sample i has the input (i / kSize, 1) and its square as the target.
class Squares : public torch::data::datasets::Dataset<Squares> {
 public:
  torch::data::Example<> get(size_t index) override {
    const double x = static_cast<double>(index) / kSize;
    return {torch::tensor({x, 1.0}, torch::kFloat), torch::tensor({x * x}, torch::kFloat)};
  }
  torch::optional<size_t> size() const override { return kSize; }
};

auto Stacked() { return Squares().map(torch::data::transforms::Stack<>()); }

TEST(TorchDataLoader, WorkersChangeNothing) {
  const auto read = [](int workers) {
    std::vector<float> inputs;
    RunReplicas(1, {}, [&](Replica& replica) {
      DataLoader loader(replica.job, Stacked(),
                        {.batch_size = 7, .seed = 3, .max_local_batch_size = 3, .workers = workers});
      for (auto& batch : loader) {
        const torch::Tensor first = batch.data.select(1, 0).contiguous();
        inputs.insert(inputs.end(), first.data_ptr<float>(), first.data_ptr<float>() + first.numel());
        EXPECT_LE(batch.data.size(0), 3);
      }
    });
    return inputs;
  };
  const std::vector<float> expected = read(0);
  EXPECT_EQ(expected.size(), static_cast<size_t>(kSize));
  EXPECT_EQ(read(1), expected);
  EXPECT_EQ(read(3), expected);
}

// A device without memory stands for one that batches have to be brought to.
TEST(TorchDataLoader, BatchesAreOnTheDeviceThatWasAskedFor) {
  RunReplicas(1, {}, [&](Replica& replica) {
    for (const int workers : {0, 1}) {
      DataLoader stacked(replica.job, Stacked(), {.batch_size = 20, .workers = workers}, torch::kMeta);
      for (auto& batch : stacked) {
        EXPECT_TRUE(batch.data.is_meta());
        EXPECT_TRUE(batch.target.is_meta());
        EXPECT_EQ(batch.data.size(0), 20);
      }
      DataLoader listed(replica.job, Squares(), {.batch_size = 20, .workers = workers}, torch::kMeta);
      for (auto& batch : listed) {
        ASSERT_EQ(batch.size(), 20);
        EXPECT_TRUE(batch[19].data.is_meta());
        EXPECT_TRUE(batch[19].target.is_meta());
      }
      DataLoader on_cpu(replica.job, Stacked(), {.batch_size = 20, .workers = workers});
      for (auto& batch : on_cpu) EXPECT_TRUE(batch.data.is_cpu());
    }
  });
}

// Batches that hide their tensors.
struct Opaque {
  int64_t first = 0;
};
class Opaques : public torch::data::datasets::BatchDataset<Opaques, Opaque> {
 public:
  Opaque get_batch(c10::ArrayRef<size_t> indices) override { return {static_cast<int64_t>(indices[0])}; }
  torch::optional<size_t> size() const override { return kSize; }
};

TEST(TorchDataLoader, BatchesThatNobodyKnowsHowToMoveAreSaid) {
  RunReplicas(1, {}, [&](Replica& replica) {
    EXPECT_THROW(DataLoader(replica.job, Opaques(), {.batch_size = 20}, torch::kMeta), std::invalid_argument);
    DataLoader loader(replica.job, Opaques(), {.batch_size = 20, .shuffle = false});
    for (auto& batch : loader) EXPECT_EQ(batch.first % 20, 0);
  });
}

// Parameters after two passes. `fails`: whether memory fails for a batch, asked before its backward pass and,
// if more micro-batches of the step follow, after it.
torch::Tensor Train(int replicas, const DataLoaderOptions& options,
                    const std::function<bool(int rank, int64_t samples, bool after)>& fails) {
  torch::Tensor result;
  RunReplicas(replicas, {}, [&](Replica& replica) {
    torch::nn::Linear model(2, 1);
    {
      torch::NoGradGuard no_gradients;
      model->weight.fill_(0.5);
      model->bias.fill_(-0.5);
    }
    torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.2).momentum(0.5));
    AdaptiveDataParallel parallel(replica.job, *model, optimizer);
    DataLoader loader(replica.job, Stacked(), options);
    for (int pass = 0; pass < 2; ++pass) {
      for (auto& batch : loader) {
        TrainStep(loader, [&] {
          const auto fail = [&](bool after) {
            if (fails && fails(replica.job.rank(), batch.data.size(0), after)) throw std::bad_alloc();
          };
          parallel.ZeroGrad();
          const torch::Tensor loss = torch::mse_loss(model->forward(batch.data), batch.target);
          fail(/*after=*/false);
          loss.backward();
          if (loader.core().is_accumulation_step()) fail(/*after=*/true);
          parallel.Step();
        });
      }
    }
    EXPECT_EQ(replica.job.optimizer_steps(), 2 * ((kSize + options.batch_size - 1) / options.batch_size));
    if (replica.job.rank() == 0) result = torch::cat({model->weight.flatten(), model->bias}).detach().clone();
  });
  return result;
}

TEST(TorchDataLoader, MicroBatchesAndMemoryFailuresGiveTheSameModel) {
  const torch::Tensor expected = Train(1, {.batch_size = 12}, nullptr);
  for (const int replicas : {1, 2, 3, 5}) {
    SCOPED_TRACE(replicas);
    for (const int64_t local : {1, 2, 5}) {
      const torch::Tensor actual =
          Train(replicas, {.batch_size = 12, .max_local_batch_size = local}, nullptr);
      EXPECT_TRUE(torch::allclose(actual, expected, 1e-4, 1e-5)) << actual << expected;
    }
    const auto too_large = [](int rank, int64_t samples, bool) { return samples > 2 + rank % 2; };
    torch::Tensor actual = Train(replicas, {.batch_size = 12, .workers = 1}, too_large);
    EXPECT_TRUE(torch::allclose(actual, expected, 1e-4, 1e-5)) << actual << expected;
    // When gradients of the step were gathered already.
    const auto late = [](int, int64_t samples, bool after) { return after && samples > 1; };
    actual = Train(replicas, {.batch_size = 12, .max_local_batch_size = 2}, late);
    EXPECT_TRUE(torch::allclose(actual, expected, 1e-4, 1e-5)) << actual << expected;
  }
}

}  // namespace
}  // namespace adaptdl::elastic
