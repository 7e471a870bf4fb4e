#include "simulator/spot_market.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "simulator/random.h"

namespace adaptdl::simulator {

SpotMarket::SpotMarket(const SpotMarketOptions& options, int gpu_types, uint64_t seed)
    : options_(options), seed_(seed) {
  for (int type = 0; type < gpu_types; ++type) {
    Market market;
    market.name = absl::StrCat(type);
    market.reclaim = Draw("reclaim", market, 0, options.lifetime * options.together);
    market.scarce = Draw("scarcity", market, 0, options.scarcity);
    markets_.push_back(std::move(market));
  }
}

// Infinite for a mean of 0.
double SpotMarket::Draw(absl::string_view what, const Market& market, int number, double mean) const {
  if (mean <= 0) return std::numeric_limits<double>::infinity();
  const std::string key = absl::StrCat("market ", what, ":", market.name);
  return std::max(1.0, std::ceil(KeyedExponential(seed_, key, number, mean)));
}

bool SpotMarket::Takes(int gpu_type, int node) const {
  const std::string key = absl::StrCat("market takes:", node);
  return KeyedUniform(seed_, key, markets_[gpu_type].reclaims) < options_.together;
}

void SpotMarket::PassReclaim(int gpu_type) {
  Market& market = markets_[gpu_type];
  Refuse("reclaim refusal", market.reclaims, market.reclaim, &market);
  ++market.reclaims;
  market.reclaim += Draw("reclaim", market, market.reclaims, options_.lifetime * options_.together);
}

void SpotMarket::Refuse(absl::string_view what, int number, double begin, Market* market) const {
  if (options_.refusal <= 0) return;
  market->refuses_until =
      std::max(market->refuses_until, begin + Draw(what, *market, number, options_.refusal));
}

bool SpotMarket::HasCapacity(int gpu_type, double now) {
  Market& market = markets_[gpu_type];
  while (market.scarce <= now) {
    Refuse("scarcity refusal", market.scarcities, market.scarce, &market);
    ++market.scarcities;
    market.scarce += Draw("scarcity", market, market.scarcities, options_.scarcity);
  }
  return now >= market.refuses_until;
}

}  // namespace adaptdl::simulator
