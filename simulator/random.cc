#include "simulator/random.h"

#include <cmath>
#include <numbers>

namespace adaptdl::simulator {
namespace {

// SplitMix64 (Steele, Lea and Flood, 2014).
constexpr uint64_t kGoldenGamma = 0x9e3779b97f4a7c15;

uint64_t Mix(uint64_t x) {
  x += kGoldenGamma;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

double ToUniform(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

// FNV-1a.
uint64_t Hash(absl::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return hash;
}

}  // namespace

double KeyedUniform(uint64_t seed, absl::string_view key, uint64_t n) {
  return ToUniform(Mix(Mix(Mix(seed) ^ Hash(key)) ^ n));
}

double KeyedExponential(uint64_t seed, absl::string_view key, uint64_t n, double mean) {
  return -mean * std::log1p(-KeyedUniform(seed, key, n));
}

double KeyedNormal(uint64_t seed, absl::string_view key, uint64_t n) {
  // Box and Muller (1958).
  const double radius = std::sqrt(KeyedExponential(seed, key, 2 * n, 2));
  return radius * std::cos(2 * std::numbers::pi * KeyedUniform(seed, key, 2 * n + 1));
}

RandomStream::RandomStream(uint64_t seed) : state_(Mix(seed)) {}

double RandomStream::Uniform() {
  const uint64_t bits = Mix(state_);
  state_ += kGoldenGamma;
  return ToUniform(bits);
}

double RandomStream::Exponential(double mean) { return -mean * std::log1p(-Uniform()); }

double RandomStream::Normal() {
  // The polar method of Marsaglia; the second number of each pair is left.
  for (;;) {
    const double x = 2 * Uniform() - 1;
    const double y = 2 * Uniform() - 1;
    const double square = x * x + y * y;
    if (square > 0 && square < 1) return x * std::sqrt(-2 * std::log(square) / square);
  }
}

}  // namespace adaptdl::simulator
