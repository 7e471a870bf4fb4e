#include "libs/elastic/torch/gradient_buckets.h"

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "ATen/ATen.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/comm/in_process_communicator.h"

namespace adaptdl::elastic {
namespace {

using ::testing::ElementsAre;

// Two parameters of two groups and a buffer, of one replica.
struct Replica {
  explicit Replica(comm::Communicator* communicator, int64_t bytes)
      : buckets(communicator, &parameters, &groups, &buffers, bytes) {}

  // Packs and sends gradients of this value, with this weight; `has`: of which parameters.
  void Send(double gradient, double weight, const std::vector<bool>& has) {
    units = {has[0] ? weight : 0, has[1] ? weight : 0};
    for (size_t i = parameters.size(); i-- > 0;) {
      buckets.slot(i).fill_(has[i] ? gradient * weight : 0);
      buckets.MarkPacked(i);
      buckets.Launch({.units = &units,
                      .local_sqr = &local_sqr,
                      .weight = weight,
                      .sampled_passes = 1,
                      .signals = &signals},
                     [this] { ++sent; });
    }
    ASSERT_TRUE(buckets.Await().ok());
    sums.local_sqr = {0, 0};
    buckets.Unpack(
        [this](size_t i, const at::Tensor* average) {
          averages[i] = average == nullptr ? at::Tensor() : average->clone();
        },
        &sums);
    buckets.Reset();
  }

  std::vector<at::Tensor> parameters = {at::zeros({2, 3}), at::zeros({4}, at::kDouble)};
  std::vector<int> groups = {0, 1};
  std::vector<at::Tensor> buffers = {at::zeros({2})};
  std::vector<double> units, local_sqr = {1, 10};
  std::function<std::vector<double>()> signals = [] { return std::vector<double>{3, 4}; };
  int sent = 0;
  GradientBuckets buckets;
  GradientBuckets::Sums sums;
  std::vector<at::Tensor> averages = {at::Tensor(), at::Tensor()};
};

class GradientBucketsTest : public testing::TestWithParam<int64_t> {
 protected:
  void OnBoth(const std::function<void(size_t rank)>& body) {
    std::thread other([&] { body(1); });
    body(0);
    other.join();
  }

  std::vector<std::unique_ptr<comm::Communicator>> members_ = comm::CreateInProcessGroup(2);
  Replica replicas_[2] = {Replica(members_[0].get(), GetParam()), Replica(members_[1].get(), GetParam())};
};

TEST_P(GradientBucketsTest, AddsUpWhatReplicasPackAndSay) {
  OnBoth([&](size_t rank) {
    Replica& replica = replicas_[rank];
    replica.buffers[0].fill_(rank == 0 ? 8 : 4);
    replica.buckets.Make({true, true}, /*num_signals=*/2);
    for (int step = 0; step < 2; ++step)
      replica.Send(rank == 0 ? 1 : 5, rank == 0 ? 0.25 : 0.75, {true, true});
    EXPECT_EQ(replica.sent, 2) << "once per step";
    EXPECT_TRUE(at::allclose(replica.averages[0], at::full({2, 3}, 4.0f)));
    EXPECT_TRUE(at::allclose(replica.averages[1], at::full({4}, 4.0, at::kDouble)));
    EXPECT_THAT(replica.sums.local_sqr, ElementsAre(2, 20));
    EXPECT_EQ(replica.sums.micro_batches, 2);
    EXPECT_THAT(replica.sums.signals, ElementsAre(6, 8));
    EXPECT_TRUE(at::allclose(replica.buffers[0], at::full({2}, 5.0f), 1e-4)) << "by weight, and again";
  });
}

TEST_P(GradientBucketsTest, AGradientThatNobodyHasIsNone) {
  OnBoth([&](size_t rank) {
    Replica& replica = replicas_[rank];
    replica.buckets.Make({true, true}, /*num_signals=*/2);
    replica.Send(2, 0.5, {rank == 0, false});
    EXPECT_TRUE(replica.averages[0].defined());
    EXPECT_FALSE(replica.averages[1].defined());
  });
}

TEST_P(GradientBucketsTest, WhatIsNotTrainedDoesNotTravel) {
  GradientBuckets& buckets = replicas_[0].buckets;
  EXPECT_TRUE(buckets.empty());
  buckets.Make({true, false}, /*num_signals=*/2);
  EXPECT_FALSE(buckets.empty());
  EXPECT_TRUE(buckets.slot(0).defined());
  EXPECT_FALSE(buckets.slot(1).defined());
  buckets.Clear();
  EXPECT_TRUE(buckets.empty());
}

INSTANTIATE_TEST_SUITE_P(BytesOfABucket, GradientBucketsTest, testing::Values(1, 1 << 20));

}  // namespace
}  // namespace adaptdl::elastic
