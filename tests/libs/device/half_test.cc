#include "libs/device/half.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace adaptdl::device {
namespace {

// The number that bits of a sign, `exponent_bits` and the rest stand for (IEEE 754, section 3.4).
double Meaning(uint16_t bits, int exponent_bits) {
  const int fraction_bits = 15 - exponent_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits & 0x7fff) >> fraction_bits;
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
  }
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
}

void ExpectSame(double got, double want, int bits) {
  if (std::isnan(want)) {
    EXPECT_TRUE(std::isnan(got)) << bits;
  } else {
    EXPECT_EQ(got, want) << bits;
    EXPECT_EQ(std::signbit(got), std::signbit(want)) << bits;
  }
}

TEST(HalfTest, EveryHalfIsTheNumberThatItsBitsStandFor) {
  for (int bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    ExpectSame(ToFloat(Float16{half}), Meaning(half, 5), bits);
    ExpectSame(ToFloat(BFloat16{half}), Meaning(half, 8), bits);
  }
}

TEST(HalfTest, EveryHalfComesBackFromAFloat) {
  for (int bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    if (!std::isnan(Meaning(half, 5))) {
      EXPECT_EQ(ToFloat16(ToFloat(Float16{half})).bits, half);
    }
    if (!std::isnan(Meaning(half, 8))) {
      EXPECT_EQ(ToBFloat16(ToFloat(BFloat16{half})).bits, half);
    }
  }
}

// Positive and rounded to the nearest, or the even one of two; beyond the last: infinity.
uint16_t Nearest(float x, int exponent_bits) {
  const auto infinity = static_cast<uint16_t>(((1 << exponent_bits) - 1) << (15 - exponent_bits));
  // Positive numbers are in the order of their bits.
  int below = 0;
  int above = infinity;
  while (above - below > 1) {
    const int middle = (below + above) / 2;
    (Meaning(static_cast<uint16_t>(middle), exponent_bits) <= x ? below : above) = middle;
  }
  const double low = Meaning(static_cast<uint16_t>(below), exponent_bits);
  // As if the exponent went on.
  const double high =
      above == infinity
          ? 2 * Meaning(static_cast<uint16_t>(infinity - (1 << (15 - exponent_bits))), exponent_bits)
          : Meaning(static_cast<uint16_t>(above), exponent_bits);
  const double middle = (low + high) / 2;
  if (x == middle) return static_cast<uint16_t>(below % 2 == 0 ? below : above);
  return static_cast<uint16_t>(x < middle ? below : above);
}

TEST(HalfTest, FloatsAreRoundedToTheNearestAndTiesToEven) {
  const auto check = [](float x) {
    EXPECT_EQ(ToFloat16(x).bits, Nearest(x, 5)) << x;
    EXPECT_EQ(ToFloat16(-x).bits, Nearest(x, 5) | 0x8000) << x;
    EXPECT_EQ(ToBFloat16(x).bits, Nearest(x, 8)) << x;
    EXPECT_EQ(ToBFloat16(-x).bits, Nearest(x, 8) | 0x8000) << x;
  };
  // Halves, what is in the middle of two, and the floats beside.
  for (const int exponent_bits : {5, 8}) {
    const int infinity = ((1 << exponent_bits) - 1) << (15 - exponent_bits);
    for (int bits = 0; bits + 1 < infinity; ++bits) {
      const double low = Meaning(static_cast<uint16_t>(bits), exponent_bits);
      const double high = Meaning(static_cast<uint16_t>(bits + 1), exponent_bits);
      for (const double x : {low, (low + high) / 2}) {
        const auto number = static_cast<float>(x);
        check(number);
        check(std::nextafter(number, 0.0F));
        check(std::nextafter(number, std::numeric_limits<float>::max()));
      }
    }
  }
  std::mt19937 random(1);
  for (int i = 0; i < 100000; ++i) check(std::bit_cast<float>(static_cast<uint32_t>(random() % 0x7f800000)));
  check(65519.99F);
  check(65520);
  check(std::numeric_limits<float>::max());
}

TEST(HalfTest, WhatIsNoNumberStaysNone) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(ToFloat(ToFloat16(-infinity)), -infinity);
  EXPECT_EQ(ToFloat(ToBFloat16(infinity)), infinity);
  // Also where all bits that are kept are zero.
  for (const uint32_t bits : {0x7f800001U, 0xff800001U, 0x7fc00000U, 0x7fffffffU, 0xffffffffU}) {
    EXPECT_TRUE(std::isnan(ToFloat(ToFloat16(std::bit_cast<float>(bits))))) << bits;
    EXPECT_TRUE(std::isnan(ToFloat(ToBFloat16(std::bit_cast<float>(bits))))) << bits;
  }
}

}  // namespace
}  // namespace adaptdl::device
