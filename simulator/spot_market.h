// When a cloud takes spot nodes back, many at once, and when it has none to give. Each GPU type is a market.
//
// At a reclaim each spot node of the type goes with the chance `together`; reclaims come so often that a node's mean life
// is `lifetime`. A time without capacity follows; such times also begin by themselves. All times are exponentially
// distributed, in whole seconds, and drawn by seed, type and number: nothing depends on what is decided.
//
// Not thread-safe; times of calls must not fall.

#ifndef ADAPTDL_SIMULATOR_SPOT_MARKET_H_
#define ADAPTDL_SIMULATOR_SPOT_MARKET_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace adaptdl::simulator {

// All times in seconds.
struct SpotMarketOptions {
  // In [0, 1]. 0: there are no reclaims.
  double together = 0;
  double lifetime = 0;
  // Mean length of a time without capacity. 0: there is always capacity.
  double refusal = 0;
  // Mean time from one that begins by itself to the next such one. 0: there are none.
  double scarcity = 0;
};

class SpotMarket {
 public:
  SpotMarket(const SpotMarketOptions& options, int gpu_types, uint64_t seed);

  // Infinite: never.
  double NextReclaim(int gpu_type) const { return markets_[gpu_type].reclaim; }
  // Whether the next reclaim takes the node.
  bool Takes(int gpu_type, int node) const;
  // The next reclaim has come.
  void PassReclaim(int gpu_type);

  bool HasCapacity(int gpu_type, double now);

 private:
  struct Market {
    std::string name;
    double reclaim = 0;
    int reclaims = 0;
    // When the next time without capacity begins by itself.
    double scarce = 0;
    int scarcities = 0;
    double refuses_until = 0;
  };

  double Draw(absl::string_view what, const Market& market, int number, double mean) const;
  void Refuse(absl::string_view what, int number, double begin, Market* market) const;

  const SpotMarketOptions options_;
  const uint64_t seed_;
  std::vector<Market> markets_;
};

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_SIMULATOR_SPOT_MARKET_H_
