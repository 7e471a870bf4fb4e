// Philox4x32-10, a counter-based random generator (Salmon et al., SC'11): a pure function of key and counter,
// the same on every machine. Not for secrets.
//
// Thread-safety: not thread-safe.

#ifndef ADAPTDL_LIBS_ELASTIC_DATA_PHILOX_H_
#define ADAPTDL_LIBS_ELASTIC_DATA_PHILOX_H_

#include <array>
#include <cstdint>

namespace adaptdl::elastic {

// One step of SplitMix64: a well-mixed function of `value`.
inline uint64_t SplitMix64(uint64_t value) {
  value += 0x9E3779B97F4A7C15u;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
  return value ^ (value >> 31);
}

// The ten rounds for one counter.
inline std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product_0 = uint64_t{0xD2511F53u} * counter[0];
    const uint64_t product_1 = uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<uint32_t>(product_1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(product_1),
               static_cast<uint32_t>(product_0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product_0)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

class Philox {
 public:
  explicit Philox(uint64_t key) : key_{static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)} {}

  uint64_t Next() {
    if (used_ == 2) {
      block_ =
          Philox4x32({static_cast<uint32_t>(counter_), static_cast<uint32_t>(counter_ >> 32), 0, 0}, key_);
      ++counter_;
      used_ = 0;
    }
    const int at = 2 * used_++;
    return (uint64_t{block_[at + 1]} << 32) | block_[at];
  }

  // Uniform in [0, bound), by Lemire's method; bound > 0.
  uint64_t Below(uint64_t bound) {
    unsigned __int128 product = static_cast<unsigned __int128>(Next()) * bound;
    if (static_cast<uint64_t>(product) < bound) {
      const uint64_t threshold = -bound % bound;
      while (static_cast<uint64_t>(product) < threshold) {
        product = static_cast<unsigned __int128>(Next()) * bound;
      }
    }
    return static_cast<uint64_t>(product >> 64);
  }

 private:
  const std::array<uint32_t, 2> key_;
  uint64_t counter_ = 0;
  std::array<uint32_t, 4> block_{};
  int used_ = 2;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_DATA_PHILOX_H_
