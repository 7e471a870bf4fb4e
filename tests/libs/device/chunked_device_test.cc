// Tensors of many chunks, and more of them than one launch takes: the CUDA kernels' arithmetic against the CPU's.

#include "tests/libs/device/chunked_device.h"

#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/libs/device/device_memory.h"

namespace adaptdl::device {
namespace {

std::vector<double> Random(uint32_t seed, int64_t count, double from, double to) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> numbers(from, to);
  std::vector<double> values(static_cast<size_t>(count));
  for (double& value : values) value = numbers(random);
  return values;
}

// Sums of passes over tensors of these sizes, of two groups, with all that a pass can do.
std::vector<double> SumsOn(Device& device, const std::vector<int64_t>& sizes, DataType type,
                           std::vector<std::vector<double>>* targets) {
  std::vector<DeviceNumbers> tensors;
  std::vector<TensorPass> passes;
  tensors.reserve(4 * sizes.size());
  const DeviceNumbers sums(device, std::vector<double>(6, 0.25));
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto seed = static_cast<uint32_t>(i);
    tensors.emplace_back(device, Random(seed, sizes[i], -1, 1), type);
    tensors.emplace_back(device, Random(seed + 100, sizes[i], -1, 1), type);
    tensors.emplace_back(device, Random(seed + 200, sizes[i], 0.5, 2), type);
    tensors.emplace_back(device, std::vector<double>(static_cast<size_t>(sizes[i]), 7), type);
    const auto tensor = [&](size_t k) { return tensors[tensors.size() - 4 + k].data(); };
    TensorPass pass{.source = tensor(0), .type = type, .count = sizes[i], .factor = 0.5};
    pass.target = tensor(3);
    pass.target_type = type;
    pass.sum = 3 * static_cast<int64_t>(i % 2);
    pass.weight = 1.5;
    if (i % 3 != 0) pass.previous = pass.kept = tensor(1);
    if (i % 3 == 2) {
      pass.exp_avg_sq = tensor(2);
      pass.exp_avg_sq_type = type;
      pass.preconditioner = {.root_factor = 2, .epsilon = 0.1};
    }
    passes.push_back(pass);
  }
  EXPECT_TRUE(device.Run(passes, sums.doubles(), nullptr).ok());
  for (size_t i = 0; i < sizes.size(); ++i) targets->push_back(tensors[4 * i + 3].Get());
  return sums.Get();
}

class ChunkedDeviceTest : public testing::TestWithParam<DataType> {};

TEST_P(ChunkedDeviceTest, ManyTensorsAndLargeOnesAreSummedAsOnTheCpu) {
  std::vector<int64_t> sizes = {1, 0, 3, cuda::kSmallestChunk, cuda::kSmallestChunk + 1, 300'001};
  for (int64_t i = 0; i < 70; ++i) sizes.push_back(17 * i);
  std::vector<std::vector<double>> expected_targets;
  const std::vector<double> expected = SumsOn(Cpu(), sizes, GetParam(), &expected_targets);
  ChunkedDevice chunked;
  std::vector<std::vector<double>> targets;
  const std::vector<double> sums = SumsOn(chunked, sizes, GetParam(), &targets);
  EXPECT_EQ(targets, expected_targets);
  for (size_t i = 0; i < sums.size(); ++i)
    EXPECT_NEAR(sums[i], expected[i], 1e-6 * std::abs(expected[i])) << i;
  EXPECT_EQ(chunked.launches(), 3) << "of 32 passes at most";
  std::vector<std::vector<double>> again;
  ChunkedDevice other;
  EXPECT_EQ(SumsOn(other, sizes, GetParam(), &again), sums) << "the same bits";
}

INSTANTIATE_TEST_SUITE_P(AllTypes, ChunkedDeviceTest,
                         testing::Values(DataType::kFloat32, DataType::kFloat64, DataType::kFloat16,
                                         DataType::kBFloat16),
                         [](const auto& info) { return std::string(NameOf(info.param)); });

TEST(PassBatch, LargeTensorsHaveLargeChunks) {
  for (const int64_t count : {int64_t{1}, int64_t{100'000}, int64_t{400'000'000}, int64_t{20'000'000'000}}) {
    const TensorPass pass{.count = count};
    absl::Span<const TensorPass> passes(&pass, 1);
    const cuda::PassBatch batch = cuda::TakeBatch(&passes);
    EXPECT_LE(batch.blocks(), cuda::kMostChunks);
    EXPECT_GE(batch.blocks() * cuda::ChunkSize(count), count);
    EXPECT_LT((batch.blocks() - 1) * cuda::ChunkSize(count), count);
  }
}

}  // namespace
}  // namespace adaptdl::device
