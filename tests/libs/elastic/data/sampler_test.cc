#include "adaptdl/sampler.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/vectors/vectors.h"

namespace adaptdl {
namespace {

using ::testing::ElementsAre;

// Golden: checkpoints written today must mean the same order of samples for ever.
TEST(PortablePermutation, NeverChanges) {
  EXPECT_THAT(PortablePermutation(10, 0, 0, 0), ElementsAre(2, 5, 0, 3, 6, 4, 8, 1, 7, 9));
  EXPECT_THAT(PortablePermutation(10, 42, 3, 1), ElementsAre(9, 3, 7, 6, 1, 5, 4, 0, 2, 8));
}

TEST(PortablePermutation, IsAPermutationThatDependsOnEveryPartOfTheKey) {
  std::vector<int64_t> sorted(1000);
  std::iota(sorted.begin(), sorted.end(), 0);
  const std::vector<int64_t> base = PortablePermutation(1000, 1, 2, 3);
  std::vector<int64_t> copy = base;
  std::sort(copy.begin(), copy.end());
  EXPECT_EQ(copy, sorted);
  EXPECT_NE(base, sorted);
  EXPECT_NE(base, PortablePermutation(1000, 2, 2, 3));
  EXPECT_NE(base, PortablePermutation(1000, 1, 3, 3));
  EXPECT_NE(base, PortablePermutation(1000, 1, 2, 4));
}

TEST(PortablePermutation, PutsEverySampleEverywhereEquallyOften) {
  constexpr int kSize = 5;
  constexpr int kDraws = 5000;
  std::vector<std::vector<int>> counts(kSize, std::vector<int>(kSize, 0));
  for (int draw = 0; draw < kDraws; ++draw) {
    const auto permutation = PortablePermutation(kSize, 7, draw, 0);
    for (int i = 0; i < kSize; ++i) ++counts[i][permutation[i]];
  }
  for (const auto& row : counts) {
    // Expected 1000, standard deviation 28.
    for (int count : row) EXPECT_NEAR(count, kDraws / kSize, 150);
  }
}

// The reference's partitions, without the samples that it repeats to make all ranks equally long.
TEST(ElasticSampler, PartitionsLikeTheReferenceUpToPadding) {
  int compared = 0;
  const nlohmann::json vectors = ReadVectors("sampler.json");
  for (const auto& item : vectors.at("partitions")) {
    if (item.at("shuffle").get<bool>()) continue;
    const int64_t size = item.at("n");
    const int replicas = item.at("num_replicas");
    ElasticSampler sampler(size, /*shuffle=*/false, /*seed=*/0);
    sampler.SetEpoch(item.at("epoch"), item.at("index"));
    const int64_t longest = item.at("len");
    for (int rank = 0; rank < replicas; ++rank) {
      std::vector<int64_t> expected = item.at("indices_by_rank").at(rank);
      const std::vector<int64_t> actual = sampler.Indices(rank, replicas);
      EXPECT_EQ(static_cast<int64_t>(expected.size()), longest);
      ASSERT_GE(static_cast<int64_t>(actual.size()), longest - 1);
      expected.resize(actual.size());
      EXPECT_EQ(actual, expected);
      ++compared;
    }
  }
  EXPECT_GT(compared, 100);
}

// The number of samples read says which pass it is, so that each has an order of its own.
TEST(ElasticSampler, GoesOnWithTheNextPassWhereOneEnds) {
  ElasticSampler sampler(10, /*shuffle=*/true, 42);
  sampler.SetEpoch(3, 14);
  const std::vector<int64_t> order = PortablePermutation(10, 42, 3, 1);
  EXPECT_THAT(sampler.Indices(0, 1), ::testing::ElementsAreArray(order.begin() + 4, order.end()));
  EXPECT_THAT(sampler.Indices(1, 4), ElementsAre(order[5], order[9]));
  sampler.SetEpoch(3);
  EXPECT_EQ(sampler.Indices(0, 1), PortablePermutation(10, 42, 3, 0));
}

TEST(ElasticSampler, DealsOutEveryPositionOfARangeOnceToAnyNumberOfReplicas) {
  ElasticSampler sampler(50, /*shuffle=*/true, 3);
  sampler.SetPass(4, 0);
  for (int replicas : {1, 2, 3, 7, 20}) {
    std::vector<int64_t> dealt;
    for (int rank = 0; rank < replicas; ++rank) {
      for (int64_t sample : sampler.Share(10, 13, rank, replicas)) dealt.push_back(sample);
    }
    std::vector<int64_t> expected;
    for (int64_t position = 10; position < 23; ++position) expected.push_back(sampler.At(position));
    EXPECT_THAT(dealt, ::testing::UnorderedElementsAreArray(expected)) << replicas << " replicas";
  }
}

TEST(ElasticSampler, GivesNothingToRanksBeyondTheLastPosition) {
  ElasticSampler sampler(2, /*shuffle=*/false, 0);
  sampler.SetPass(0, 0);
  EXPECT_THAT(sampler.Share(0, 2, 1, 4), ElementsAre(1));
  EXPECT_THAT(sampler.Share(0, 2, 3, 4), ElementsAre());
}

}  // namespace
}  // namespace adaptdl
