#include "libs/device/gradient_kernels.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "libs/device/gradient_kernels_inl.h"

namespace adaptdl::device {
namespace {

template <typename T>
std::vector<T> Random(size_t size, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<T> numbers(size);
  for (T& x : numbers) x = static_cast<T>(static_cast<double>(random()) / 1e9 - 2);
  return numbers;
}

template <typename T>
std::vector<T> RandomMoments(size_t size) {
  std::vector<T> numbers = Random<T>(size, 77);
  for (T& x : numbers) x *= x;
  return numbers;
}

template <typename T>
long double Product(const std::vector<T>& x, const std::vector<T>& y) {
  long double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += static_cast<long double>(x[i]) * y[i];
  return sum;
}

template <typename T>
class GradientKernels : public ::testing::Test {
 protected:
  // Around the sizes of lanes and blocks.
  const std::vector<size_t> sizes_ = {0, 1, 3, 15, 16, 17, 63, 64, 1000, 1023, 1024, 1025, 1039, 1040, 5000};
};

using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(GradientKernels, Types);

TYPED_TEST(GradientKernels, NormsAreExactToDoublePrecision) {
  for (const size_t size : this->sizes_) {
    const auto x = Random<TypeParam>(size, 1);
    const auto exact = static_cast<double>(Product(x, x));
    EXPECT_NEAR(SquaredNorm<TypeParam>(x), exact, 1e-14 * exact) << size;
  }
}

TYPED_TEST(GradientKernels, ComparesWithThePreviousGradient) {
  for (const size_t size : this->sizes_) {
    auto x = Random<TypeParam>(size, 1);
    auto y = Random<TypeParam>(size, 2);
    const PairSums sums = Process<TypeParam>({.gradient = absl::MakeSpan(x), .previous = absl::MakeSpan(y)});
    const double magnitude = static_cast<double>(Product(x, x) + Product(y, y));
    EXPECT_NEAR(sums.current, static_cast<double>(Product(x, x)), 1e-14 * magnitude);
    EXPECT_NEAR(sums.previous, static_cast<double>(Product(y, y)), 1e-14 * magnitude);
    EXPECT_NEAR(sums.dot, static_cast<double>(Product(x, y)), 1e-14 * magnitude);
    EXPECT_EQ(x, Random<TypeParam>(size, 1));
    EXPECT_EQ(y, Random<TypeParam>(size, 2));
  }
}

TYPED_TEST(GradientKernels, ScalesInPlaceAndSumsWhatItWrote) {
  for (const size_t size : this->sizes_) {
    auto x = Random<TypeParam>(size, 1);
    const PairSums sums = Process<TypeParam>({.gradient = absl::MakeSpan(x), .factor = 1.0 / 3});
    const auto before = Random<TypeParam>(size, 1);
    for (size_t i = 0; i < size; ++i) {
      ASSERT_EQ(x[i], static_cast<TypeParam>(static_cast<double>(before[i]) * (1.0 / 3)));
    }
    EXPECT_EQ(sums.current, SquaredNorm<TypeParam>(x));
    EXPECT_EQ(sums.previous, 0);
    EXPECT_EQ(sums.dot, 0);
  }
}

TYPED_TEST(GradientKernels, ScalesElsewhereAndLeavesTheGradient) {
  auto x = Random<TypeParam>(1039, 1);
  auto in_place = x;
  std::vector<TypeParam> to(x.size(), 7);
  const PairSums sums =
      Process<TypeParam>({.gradient = absl::MakeSpan(x), .factor = .3, .scaled = absl::MakeSpan(to)});
  EXPECT_EQ(sums.current, Process<TypeParam>({.gradient = absl::MakeSpan(in_place), .factor = .3}).current);
  EXPECT_EQ(to, in_place);
  EXPECT_EQ(x, Random<TypeParam>(x.size(), 1));

  Process<TypeParam>({.gradient = absl::MakeSpan(x), .scaled = absl::MakeSpan(to)});
  EXPECT_EQ(to, x);
}

TYPED_TEST(GradientKernels, KeepsTheScaledGradientAfterComparing) {
  for (const size_t size : this->sizes_) {
    auto x = Random<TypeParam>(size, 1);
    auto y = Random<TypeParam>(size, 2);
    const PairSums sums = Process<TypeParam>(
        {.gradient = absl::MakeSpan(x), .factor = .5, .previous = absl::MakeSpan(y), .keep = true});
    auto old = Random<TypeParam>(size, 2);
    const PairSums apart =
        Process<TypeParam>({.gradient = absl::MakeSpan(x), .previous = absl::MakeSpan(old)});
    EXPECT_EQ(sums.current, apart.current);
    EXPECT_EQ(sums.previous, apart.previous);
    EXPECT_EQ(sums.dot, apart.dot);
    EXPECT_EQ(y, x);
  }
}

TYPED_TEST(GradientKernels, KeepsWithoutReadingWhatWasThere) {
  auto x = Random<TypeParam>(100, 1);
  std::vector<TypeParam> y(100, std::numeric_limits<TypeParam>::quiet_NaN());
  const PairSums sums = Process<TypeParam>(
      {.gradient = absl::MakeSpan(x), .previous = absl::MakeSpan(y), .compare = false, .keep = true});
  EXPECT_EQ(sums.current, SquaredNorm<TypeParam>(x));
  EXPECT_EQ(sums.previous, 0);
  EXPECT_EQ(sums.dot, 0);
  EXPECT_EQ(y, x);
}

TYPED_TEST(GradientKernels, PreconditionsBothGradients) {
  const Preconditioner adam = {1.7, 1e-3};
  for (const size_t size : this->sizes_) {
    auto x = Random<TypeParam>(size, 1);
    auto y = Random<TypeParam>(size, 2);
    const auto moments = RandomMoments<TypeParam>(size);
    const PairSums sums = Process<TypeParam>({.gradient = absl::MakeSpan(x),
                                              .previous = absl::MakeSpan(y),
                                              .exp_avg_sq = moments,
                                              .preconditioner = adam});
    double current = 0;
    double previous = 0;
    double dot = 0;
    for (size_t i = 0; i < size; ++i) {
      const double p = std::sqrt(static_cast<double>(moments[i])) * adam.root_factor + adam.epsilon;
      current += x[i] / p * (x[i] / p);
      previous += y[i] / p * (y[i] / p);
      dot += x[i] / p * (y[i] / p);
    }
    const double precision = 20 * std::numeric_limits<TypeParam>::epsilon() * (current + previous);
    EXPECT_NEAR(sums.current, current, precision);
    EXPECT_NEAR(sums.previous, previous, precision);
    EXPECT_NEAR(sums.dot, dot, precision);
    EXPECT_EQ(SquaredNorm<TypeParam>(x, moments, adam), sums.current);
  }
}

TYPED_TEST(GradientKernels, FiniteGradientsOfAnySizeHaveFiniteNorms) {
  const std::vector<TypeParam> huge(100, static_cast<TypeParam>(3e38));
  EXPECT_NEAR(SquaredNorm<TypeParam>(huge), 9e78, 1e72);
  const std::vector<TypeParam> tiny(100, static_cast<TypeParam>(1e-38));
  EXPECT_NEAR(SquaredNorm<TypeParam>(tiny), 1e-74, 1e-80);
}

TYPED_TEST(GradientKernels, NonFiniteNumbersShowInTheSums) {
  for (const size_t size : {17, 1024, 1030}) {
    for (const size_t at : {size_t{0}, size / 2, size - 1}) {
      auto x = Random<TypeParam>(size, 1);
      x[at] = std::numeric_limits<TypeParam>::quiet_NaN();
      EXPECT_TRUE(std::isnan(SquaredNorm<TypeParam>(x)));
      x[at] = std::numeric_limits<TypeParam>::infinity();
      EXPECT_TRUE(std::isinf(SquaredNorm<TypeParam>(x)));
    }
  }
}

TYPED_TEST(GradientKernels, ReadsFromAnyAddressAndNothingBeyond) {
  for (size_t offset = 0; offset < 9; ++offset) {
    auto x = Random<TypeParam>(100, 1);
    x[offset + 50] = std::numeric_limits<TypeParam>::quiet_NaN();
    if (offset > 0) x[offset - 1] = std::numeric_limits<TypeParam>::quiet_NaN();
    const std::vector<TypeParam> copy(x.begin() + static_cast<std::ptrdiff_t>(offset),
                                      x.begin() + static_cast<std::ptrdiff_t>(offset) + 50);
    EXPECT_EQ(SquaredNorm<TypeParam>(absl::MakeConstSpan(x).subspan(offset, 50)),
              SquaredNorm<TypeParam>(copy));
  }
}

// Replicas on unlike machines must agree to the last bit.
TYPED_TEST(GradientKernels, AllInstructionSetsGiveTheSameBits) {
  if (!kernels::SupportsAvx2()) GTEST_SKIP() << "this machine has one set only";
  for (const size_t size : this->sizes_) {
    const auto moments = RandomMoments<TypeParam>(size);
    for (const bool precondition : {false, true}) {
      auto x = Random<TypeParam>(size, 1);
      auto x_avx2 = x;
      const auto y = Random<TypeParam>(size, 2);
      kernels::Operands<TypeParam> operands = {.gradient = x.data(),
                                               .size = size,
                                               .scaled = x.data(),
                                               .factor = 1.0 / 3,
                                               .previous = y.data(),
                                               .exp_avg_sq = precondition ? moments.data() : nullptr,
                                               .root_factor = 1.3,
                                               .epsilon = 1e-8};
      const kernels::Sums baseline = kernels::RunBaseline(operands);
      operands.gradient = operands.scaled = x_avx2.data();
      const kernels::Sums avx2 = kernels::RunAvx2(operands);
      EXPECT_EQ(std::memcmp(&baseline, &avx2, sizeof baseline), 0) << size;
      EXPECT_EQ(x, x_avx2);
    }
  }
}

TEST(AdamPreconditioner, BeginsWithTheFifthStep) {
  EXPECT_FALSE(AdamPreconditioner(4, .999, 1e-8).has_value());
  const auto fifth = AdamPreconditioner(5, .999, 1e-8);
  ASSERT_TRUE(fifth.has_value());
  EXPECT_NEAR(fifth->root_factor, 1 / std::sqrt(1 - std::pow(.999, 5)), 1e-12);
  EXPECT_EQ(fifth->epsilon, 1e-8);
}

}  // namespace
}  // namespace adaptdl::device
