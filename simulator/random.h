// Random numbers that depend on what they are for, not on the order in which they are asked for.
//
//   double u = KeyedUniform(seed, "restart:bert-3", 2);
//
// The same on every machine. The functions are pure and thread-safe.

#ifndef ADAPTDL_SIMULATOR_RANDOM_H_
#define ADAPTDL_SIMULATOR_RANDOM_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace adaptdl::simulator {

// The n-th number of the sequence named `key`: uniform in [0, 1).
double KeyedUniform(uint64_t seed, absl::string_view key, uint64_t n);

// The same, exponentially distributed. `mean` > 0.
double KeyedExponential(uint64_t seed, absl::string_view key, uint64_t n, double mean);

// The same, normally distributed, with mean 0 and deviation 1. Takes numbers 2 n and 2 n + 1 of the sequence.
double KeyedNormal(uint64_t seed, absl::string_view key, uint64_t n);

// Random numbers one after the other, where millions are drawn. Not thread-safe.
class RandomStream {
 public:
  explicit RandomStream(uint64_t seed);

  // In [0, 1).
  double Uniform();
  // `mean` > 0.
  double Exponential(double mean);
  // With mean 0 and deviation 1.
  double Normal();

 private:
  uint64_t state_;
};

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_SIMULATOR_RANDOM_H_
