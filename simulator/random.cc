#include "simulator/random.h"

#include <cmath>

namespace adaptdl::simulator {
namespace {

// The finaliser of SplitMix64 (Steele, Lea and Flood, 2014).
uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

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
  const uint64_t bits = Mix(Mix(Mix(seed) ^ Hash(key)) ^ n);
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

double KeyedExponential(uint64_t seed, absl::string_view key, uint64_t n, double mean) {
  return -mean * std::log1p(-KeyedUniform(seed, key, n));
}

}  // namespace adaptdl::simulator
