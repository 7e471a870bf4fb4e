// Where buckets get their memory.

#include "libs/elastic/gradients/gradient_buckets.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/libs/elastic/gradients/exchange_member.h"

namespace adaptdl::elastic {
namespace {

using device::DataType;

// The last of them fill a bucket of floats, the others one of doubles.
const ModelTensors::Layout kLayout = {
    .parameters = {{7, DataType::kFloat64, 0}, {33, DataType::kFloat64, 1}, {200, DataType::kFloat32, 0}},
    .num_groups = 2,
    .buffers = {3}};
constexpr int64_t kTail = 20;

int64_t BytesOf(const GradientBuckets::Reserve& reserve) {
  return std::accumulate(reserve.begin(), reserve.end(), int64_t{0},
                         [](int64_t sum, const device::Memory& piece) { return sum + piece.bytes(); });
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
  GradientBuckets::Options options = {.bytes = 512};
  auto reserve = GradientBuckets::GetReserve(&device_, &model_, options);
  ASSERT_TRUE(reserve.ok()) << reserve.status();
  std::vector<std::pair<const char*, const char*>> pieces;
  for (const device::Memory& piece : *reserve) pieces.emplace_back(piece.at(0), piece.at(piece.bytes()));
  options.reserve = &*reserve;
  const GradientBuckets buckets = Make(options, {true, true, true});
  EXPECT_EQ(buckets.size(), 2U);
  const auto is_in_reserve = [&](const TensorRef& tensor) {
    const auto* const begin = static_cast<const char*>(tensor.data);
    const char* const end = begin + tensor.count * device::ElementSize(tensor.type);
    return std::any_of(pieces.begin(), pieces.end(),
                       [&](const auto& piece) { return piece.first <= begin && end <= piece.second; });
  };
  std::set<const void*> places = {buckets.tail().data, buckets.buffer(0).data};
  EXPECT_TRUE(is_in_reserve(buckets.tail()));
  EXPECT_TRUE(is_in_reserve(buckets.buffer(0)));
  for (size_t i = 0; i < kLayout.parameters.size(); ++i) {
    EXPECT_TRUE(is_in_reserve(buckets.slot(i))) << i;
    places.insert(buckets.slot(i).data);
  }
  EXPECT_EQ(places.size(), kLayout.parameters.size() + 2);
  EXPECT_TRUE(reserve->empty());
}

TEST_P(GradientBucketsTest, AReserveIsForWhatIsTrained) {
  const auto all = GradientBuckets::GetReserve(&device_, &model_, {});
  ASSERT_TRUE(all.ok()) << all.status();
  model_.SetTrained(2, false);
  const auto fewer = GradientBuckets::GetReserve(&device_, &model_, {});
  ASSERT_TRUE(fewer.ok()) << fewer.status();
  EXPECT_LT(BytesOf(*fewer), BytesOf(*all));
}

TEST_P(GradientBucketsTest, AReserveThatDoesNotFitIsGivenBack) {
  GradientBuckets::Options options = {.bytes = 512};
  GradientBuckets::Reserve reserve;
  reserve.push_back(device_.Allocate(8).value());
  options.reserve = &reserve;
  const GradientBuckets buckets = Make(options, {true, true, true});
  EXPECT_EQ(buckets.slot(2).count, 200);
  EXPECT_TRUE(reserve.empty());
}

INSTANTIATE_TEST_SUITE_P(Devices, GradientBucketsTest, ::testing::ValuesIn(DeviceKinds()),
                         [](const auto& test) { return NameOf(test.param); });

}  // namespace
}  // namespace adaptdl::elastic
