#include "libs/device/tensor_pass.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "libs/device/cpu_device.h"
#include "libs/device/data_type.h"
#include "libs/device/device.h"
#include "libs/device/device_loader.h"
#include "libs/device/guarded_device.h"
#include "tests/libs/device/chunked_device.h"
#include "tests/libs/device/device_memory.h"

namespace adaptdl::device {
namespace {

enum class Place { kCpu, kGuarded, kChunked, kCuda };

// More than a block of conversions, and no multiple of a vector.
constexpr int64_t kCount = 2053;

std::vector<double> Random(uint32_t seed, double from, double to) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> numbers(from, to);
  std::vector<double> values(kCount);
  for (double& value : values) value = numbers(random);
  return values;
}

// Of one step of rounding to `type`.
double Tolerance(DataType type) {
  switch (type) {
    case DataType::kFloat64:
      return 1e-15;
    case DataType::kFloat32:
      return 1.2e-7;
    case DataType::kFloat16:
      return 1e-3;
    default:
      return 8e-3;
  }
}

constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kFloat64, DataType::kFloat16,
                               DataType::kBFloat16};

// Of a device and the source's type.
class TensorPassTest : public testing::TestWithParam<std::tuple<Place, DataType>> {
 protected:
  Device& device() {
    switch (std::get<0>(GetParam())) {
      case Place::kCpu:
        return Cpu();
      case Place::kGuarded:
        return guarded_;
      case Place::kChunked:
        return chunked_;
      case Place::kCuda:
        return *CudaDeviceAt(0).value();
    }
    return guarded_;
  }
  DataType type() const { return std::get<1>(GetParam()); }

  void Run(const TensorPass& pass, const DeviceNumbers& sums) {
    ASSERT_TRUE(device().Run({pass}, sums.doubles(), nullptr).ok());
  }

  void ExpectScaledKeptAndSummed(DataType target_type, DataType moments_type);

  GuardedDevice guarded_;
  ChunkedDevice chunked_;
  const std::vector<double> source_ = Rounded(Random(1, -2, 2), type());
  const std::vector<double> previous_ = Rounded(Random(2, -2, 2), type());
  const std::vector<double> moments_ = Random(3, 0.1, 2);
};

void TensorPassTest::ExpectScaledKeptAndSummed(DataType target_type, DataType moments_type) {
  SCOPED_TRACE(testing::Message() << "to " << NameOf(target_type) << ", moments " << NameOf(moments_type));
  const DeviceNumbers source(device(), source_, type());
  const DeviceNumbers previous(device(), previous_, type());
  const DeviceNumbers moments(device(), moments_, moments_type);
  const DeviceNumbers target(device(), std::vector<double>(kCount, 7), target_type);
  const DeviceNumbers sums(device(), {1, 10, 20, 30, 40});
  const Preconditioner adam{.root_factor = 1.5, .epsilon = 1e-3};
  Run({.source = source.data(),
       .type = type(),
       .count = kCount,
       .factor = 0.3,
       .target = target.data(),
       .target_type = target_type,
       .previous = previous.data(),
       .kept = previous.data(),
       .exp_avg_sq = moments.data(),
       .exp_avg_sq_type = moments_type,
       .preconditioner = adam,
       .sum = 1,
       .weight = 2},
      sums);

  const std::vector<double> v = Rounded(moments_, moments_type);
  double current_sqr = 0;
  double previous_sqr = 0;
  double dot = 0;
  const std::vector<double> products = target.Get();
  const std::vector<double> kept = previous.Get();
  // Sums may be of the product before or after it was rounded to the source's type.
  const double tolerance = 2 * Tolerance(type());
  for (size_t i = 0; i < static_cast<size_t>(kCount); ++i) {
    const double product = 0.3 * source_[i];
    EXPECT_NEAR(products[i], product,
                (Tolerance(target_type) + Tolerance(type())) * std::abs(product) + 1e-7);
    EXPECT_NEAR(kept[i], product, 2 * Tolerance(type()) * std::abs(product) + 1e-7);
    const double p = adam.root_factor * std::sqrt(v[i]) + adam.epsilon;
    current_sqr += product / p * (product / p);
    previous_sqr += previous_[i] / p * (previous_[i] / p);
    dot += product / p * (previous_[i] / p);
  }
  const std::vector<double> got = sums.Get();
  EXPECT_EQ(got[0], 1);
  EXPECT_NEAR(got[1], 10 + 2 * current_sqr, (tolerance + 1e-6) * current_sqr);
  EXPECT_NEAR(got[2], 20 + 2 * previous_sqr, 2e-6 * previous_sqr);
  EXPECT_NEAR(got[3], 30 + 2 * dot, (tolerance + 1e-6) * (current_sqr + previous_sqr));
  EXPECT_EQ(got[4], 40);
  EXPECT_EQ(source.Get(), source_);
}

TEST_P(TensorPassTest, ScalesConvertsKeepsAndSums) {
  for (const DataType target_type : kTypes) {
    for (const DataType moments_type : kTypes) ExpectScaledKeptAndSummed(target_type, moments_type);
  }
}

TEST_P(TensorPassTest, SumsAlone) {
  const DeviceNumbers source(device(), source_, type());
  const DeviceNumbers sums(device(), {0, 5});
  Run({.source = source.data(), .type = type(), .count = kCount, .factor = 0.5, .sum = 0}, sums);
  double sqr = 0;
  for (const double x : source_) sqr += 0.25 * x * x;
  EXPECT_NEAR(sums.Get()[0], sqr, 1e-6 * sqr);
  EXPECT_EQ(sums.Get()[1], 5);
  EXPECT_EQ(source.Get(), source_);
}

TEST_P(TensorPassTest, ScalesInPlace) {
  const DeviceNumbers source(device(), source_, type());
  const DeviceNumbers sums(device(), {0});
  // A power of two: exact in all types.
  Run({.source = source.data(),
       .type = type(),
       .count = kCount,
       .factor = 0.25,
       .target = source.data(),
       .target_type = type(),
       .sum = 0},
      sums);
  std::vector<double> want = source_;
  for (double& x : want) x *= 0.25;
  EXPECT_EQ(source.Get(), Rounded(want, type()));
}

TEST_P(TensorPassTest, NothingTimesNotANumberIsNothing) {
  std::vector<double> values(kCount, std::numeric_limits<double>::quiet_NaN());
  const DeviceNumbers source(device(), values, type());
  const DeviceNumbers previous(device(), previous_, type());
  const DeviceNumbers kept(device(), previous_, type());
  const DeviceNumbers target(device(), std::vector<double>(kCount, 7), DataType::kFloat32);
  const DeviceNumbers sums(device(), {0, 0, 0});
  Run({.source = source.data(),
       .type = type(),
       .count = kCount,
       .factor = 0,
       .target = target.data(),
       .target_type = DataType::kFloat32,
       .previous = previous.data(),
       .kept = kept.data(),
       .sum = 0},
      sums);
  double previous_sqr = 0;
  for (const double x : previous_) previous_sqr += x * x;
  EXPECT_EQ(target.Get(), std::vector<double>(kCount, 0));
  EXPECT_EQ(kept.Get(), std::vector<double>(kCount, 0));
  EXPECT_EQ(sums.Get()[0], 0);
  EXPECT_NEAR(sums.Get()[1], previous_sqr, 1e-6 * previous_sqr);
  EXPECT_EQ(sums.Get()[2], 0);
}

TEST_P(TensorPassTest, WhatIsNotFiniteShowsInTheSum) {
  for (const double bad :
       {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    std::vector<double> values = source_;
    values[1500] = bad;
    const DeviceNumbers source(device(), values, type());
    const DeviceNumbers sums(device(), {0});
    Run({.source = source.data(), .type = type(), .count = kCount, .sum = 0}, sums);
    EXPECT_FALSE(std::isfinite(sums.Get()[0]));
  }
}

// The sum of squares of the largest float32 is far beyond a float32, and is finite.
TEST_P(TensorPassTest, FiniteNumbersHaveFiniteSums) {
  const double large = type() == DataType::kFloat16 ? 65504 : 3e38;
  const std::vector<double> values = Rounded(std::vector<double>(kCount, large), type());
  const DeviceNumbers source(device(), values, type());
  const DeviceNumbers sums(device(), {0});
  Run({.source = source.data(), .type = type(), .count = kCount, .sum = 0}, sums);
  EXPECT_NEAR(sums.Get()[0] / (values[0] * values[0] * kCount), 1, 1e-9);
}

TEST_P(TensorPassTest, TheSameNumbersGiveTheSameBits) {
  const DeviceNumbers source(device(), source_, type());
  const DeviceNumbers moments(device(), moments_);
  const DeviceNumbers sums(device(), {0, 0});
  for (const int64_t sum : {0, 1}) {
    Run({.source = source.data(),
         .type = type(),
         .count = kCount,
         .exp_avg_sq = moments.data(),
         .exp_avg_sq_type = DataType::kFloat64,
         .sum = sum},
        sums);
  }
  EXPECT_EQ(sums.Get()[0], sums.Get()[1]);
}

std::string NameOfCase(const testing::TestParamInfo<TensorPassTest::ParamType>& info) {
  const auto& [place, type] = info.param;
  constexpr const char* kNames[] = {"cpu", "guarded", "chunked", "cuda"};
  return std::string(kNames[static_cast<size_t>(place)]) + "_" + NameOf(type);
}

// A GPU too, where this process sees one.
std::vector<Place> Places() {
  std::vector<Place> places = {Place::kCpu, Place::kGuarded, Place::kChunked};
  if (CountCudaDevices().value_or(0) > 0) places.push_back(Place::kCuda);
  return places;
}

INSTANTIATE_TEST_SUITE_P(AllTypes, TensorPassTest,
                         testing::Combine(testing::ValuesIn(Places()), testing::ValuesIn(kTypes)),
                         NameOfCase);

}  // namespace
}  // namespace adaptdl::device
