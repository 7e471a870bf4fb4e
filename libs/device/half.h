// float16 and bfloat16 as bits, for CPUs: conversions round to the nearest, ties to even, as IEEE 754 has it;
// infinities stay, and every NaN stays a NaN.
//
// Thread-safety: pure functions.

#ifndef ADAPTDL_LIBS_DEVICE_HALF_H_
#define ADAPTDL_LIBS_DEVICE_HALF_H_

#include <bit>
#include <cstdint>

namespace adaptdl::device {

struct Float16 {
  uint16_t bits = 0;
};
struct BFloat16 {
  uint16_t bits = 0;
};

inline float ToFloat(BFloat16 x) { return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16); }

inline BFloat16 ToBFloat16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  if ((bits & 0x7fffffff) > 0x7f800000) return {static_cast<uint16_t>((bits >> 16) | 0x40)};
  return {static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};
}

inline float ToFloat(Float16 x) {
  // 2^112: what the two types' exponents differ by.
  constexpr float kScale = 0x1p112F;
  const uint32_t sign = static_cast<uint32_t>(x.bits & 0x8000) << 16;
  const uint32_t rest = static_cast<uint32_t>(x.bits & 0x7fff) << 13;
  // The multiplication makes the exponent right, and subnormal numbers normal.
  uint32_t bits = std::bit_cast<uint32_t>(std::bit_cast<float>(rest) * kScale);
  if (rest >= 0x0f800000) bits |= 0x7f800000;  // infinity or NaN
  return std::bit_cast<float>(sign | bits);
}

inline Float16 ToFloat16(float x) {
  constexpr uint32_t kSmallestInfinity =
      0x477ff000;  // 65520: half-way from the largest to the next power of two
  constexpr uint32_t kSmallestNormal = 0x38800000;  // 2^-14
  const auto all = std::bit_cast<uint32_t>(x);
  const auto sign = static_cast<uint16_t>((all >> 16) & 0x8000);
  const uint32_t bits = all & 0x7fffffff;
  if (bits > 0x7f800000) return {static_cast<uint16_t>(sign | 0x7e00)};
  if (bits >= kSmallestInfinity) return {static_cast<uint16_t>(sign | 0x7c00)};
  if (bits < kSmallestNormal) {
    // Adding 0.5 leaves a multiple of 2^-24 in the last bits, rounded by the machine.
    const float shifted = std::bit_cast<float>(bits) + 0.5F;
    return {static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(0.5F)))};
  }
  const uint32_t odd = (bits >> 13) & 1;
  return {static_cast<uint16_t>(sign | ((bits - 0x38000000 + 0xfff + odd) >> 13))};
}

}  // namespace adaptdl::device

#endif  // ADAPTDL_LIBS_DEVICE_HALF_H_
