// What all communicators share: sums and maxima of what members bring.

#include "libs/comm/communicator.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/comm/in_process_communicator.h"
#include "libs/device/data_type.h"
#include "tests/libs/device/device_memory.h"

namespace adaptdl::comm {
namespace {

using device::BytesOf;
using device::NumbersOf;
using ::testing::ElementsAre;

// What `to` is after one reduction.
std::vector<double> Reduced(ReduceOp op, DataType type, const std::vector<double>& to,
                            const std::vector<double>& from) {
  std::vector<char> result = BytesOf(to, type);
  ReduceInto(op, type, result.data(), BytesOf(from, type).data(), static_cast<int64_t>(to.size()));
  return NumbersOf(result, type);
}

TEST(ReduceInto, AddsHalves) {
  for (const DataType type : {DataType::kFloat16, DataType::kBFloat16}) {
    EXPECT_THAT(Reduced(ReduceOp::kSum, type, {1, -2.5, 0}, {2, 0.5, -3}), ElementsAre(3, -2, -3));
  }
  // Beyond the largest float16, which bfloat16 is not.
  EXPECT_THAT(Reduced(ReduceOp::kSum, DataType::kFloat16, {65504}, {65504}),
              ElementsAre(std::numeric_limits<double>::infinity()));
  EXPECT_THAT(Reduced(ReduceOp::kSum, DataType::kBFloat16, {65536}, {65536}), ElementsAre(131072));
  EXPECT_TRUE(std::isnan(Reduced(ReduceOp::kSum, DataType::kFloat16, {NAN}, {1})[0]));
}

TEST(ReduceInto, TakesMaximaOfHalves) {
  for (const DataType type : {DataType::kFloat16, DataType::kBFloat16}) {
    EXPECT_THAT(Reduced(ReduceOp::kMax, type, {1, -2.5, -1}, {2, -4, 0}), ElementsAre(2, -2.5, 0));
  }
}

// Half-way between two numbers a sum goes to the even one: the two ones are lost one by one, and would count
// together.
TEST(ReduceInto, RoundsHalvesAfterEachAddition) {
  for (const auto& [type, large] :
       {std::pair{DataType::kFloat16, 2048.0}, std::pair{DataType::kBFloat16, 256.0}}) {
    auto members = CreateInProcessGroup(3, absl::Seconds(20));
    std::vector<std::thread> threads;
    threads.reserve(members.size());
    for (auto& member : members) {
      threads.emplace_back([&member, type = type, large = large] {
        std::vector<char> values = BytesOf({member->rank() == 0 ? large : 1, 1}, type);
        ASSERT_TRUE(member->AllReduce({values.data(), 2, type}).ok());
        EXPECT_THAT(NumbersOf(values, type), ElementsAre(large, 3));
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace adaptdl::comm
