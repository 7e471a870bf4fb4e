// Where buckets get their memory.

#include "libs/elastic/gradients/gradient_buckets.h"

#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/libs/elastic/gradients/exchange_member.h"

namespace adaptdl::elastic {
namespace {

using device::DataType;
using ::testing::Each;

// The last of them fill a bucket of floats, the others one of doubles.
const ModelTensors::Layout kLayout = {
    .parameters = {{7, DataType::kFloat64, 0}, {33, DataType::kFloat64, 1}, {200, DataType::kFloat32, 0}},
    .num_groups = 2,
    .buffers = {3}};
constexpr int64_t kTail = 20;

int64_t Sum(const std::vector<int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
}

class GradientBucketsTest : public ::testing::TestWithParam<DeviceKind> {
 protected:
  GradientBuckets Make(const GradientBuckets::Options& options, const std::vector<bool>& trained) {
    GradientBuckets buckets(communicator_.get(), &device_, &model_, options);
    EXPECT_TRUE(buckets.Make(trained, kTail, nullptr).ok());
    device::Synchronize(device_);
    return buckets;
  }

  device::Device& device_ = MakeDevice(GetParam());
  const std::unique_ptr<comm::Communicator> communicator_ =
      Over(std::move(comm::CreateInProcessGroup(1).front()), device_);
  DescribedModel model_{device_, kLayout};
};

TEST_P(GradientBucketsTest, AreMadeOfTheReserve) {
  for (const bool ahead : {false, true}) {
    BucketReserve reserve(&device_);
    const GradientBuckets::Options options = {.bytes = 512, .reserve = &reserve};
    std::vector<int64_t> sizes = GradientBuckets::SizesFor(&model_, options);
    EXPECT_FALSE(reserve.begun());
    // And one that no bucket can be as small as, or has a use for.
    sizes.push_back(8);
    if (ahead) {
      reserve.Begin(sizes);
    } else {
      reserve.Get(sizes);
      EXPECT_TRUE(reserve.ready());
    }
    EXPECT_TRUE(reserve.begun());
    EXPECT_EQ(reserve.Allocate(4).value().bytes(), 8) << "of the reserve";
    EXPECT_TRUE(reserve.ready());
    const GradientBuckets buckets = Make(options, {true, true, true});
    EXPECT_EQ(buckets.size(), 2U);
    // A guarded device's new memory is full of NaN; what was reserved has been written to.
    EXPECT_THAT(model_.Read(buckets.slot(2)), Each(0));
    EXPECT_THAT(model_.Read(buckets.slot(1)), Each(0));
  }
}

TEST_P(GradientBucketsTest, WhatIsFrozenNeedsNoRoom) {
  const int64_t all = Sum(GradientBuckets::SizesFor(&model_, {}));
  model_.SetTrained(2, false);
  EXPECT_LT(Sum(GradientBuckets::SizesFor(&model_, {})), all);
}

TEST_P(GradientBucketsTest, AReserveThatDoesNotFitIsGivenBack) {
  BucketReserve reserve(&device_);
  reserve.Get({8});
  const GradientBuckets buckets = Make({.bytes = 512, .reserve = &reserve}, {true, true, true});
  EXPECT_EQ(buckets.slot(2).count, 200);
  // The piece of 8 bytes is gone: this is new, and as small as it was asked for.
  EXPECT_EQ(reserve.Allocate(4).value().bytes(), 4);
}

// A model whose gradients take long to get memory for.
TEST_P(GradientBucketsTest, OneThatWasAloneGetsReadyWhileItGoesOn) {
  const ModelTensors::Layout large = {.parameters = {{5'000'000, DataType::kFloat32, 0}}};
  BucketReserve reserve(&device_);
  ExchangeMember member(GetParam(), std::move(comm::CreateInProcessGroup(1).front()), large,
                        {.buckets = {.reserve = &reserve}});
  EXPECT_FALSE(member.exchange().IsReadyForSeveral());
  EXPECT_TRUE(reserve.begun());
  // Waits until it is.
  EXPECT_GE(reserve.Allocate(1).value().bytes(), 20'000'000);
  EXPECT_TRUE(member.exchange().IsReadyForSeveral());
}

TEST_P(GradientBucketsTest, ASmallModelIsAlwaysReady) {
  BucketReserve reserve(&device_);
  ExchangeMember member(GetParam(), std::move(comm::CreateInProcessGroup(1).front()), kLayout,
                        {.buckets = {.reserve = &reserve}});
  EXPECT_TRUE(member.exchange().IsReadyForSeveral());
  EXPECT_FALSE(reserve.begun());
}

INSTANTIATE_TEST_SUITE_P(Devices, GradientBucketsTest, ::testing::ValuesIn(DeviceKinds()),
                         [](const auto& test) { return NameOf(test.param); });

}  // namespace
}  // namespace adaptdl::elastic
