#include "adaptdl/grad_scaler.h"

#include <algorithm>
#include <cstdint>

namespace adaptdl {

void GradScaler::Update(bool overflowed) {
  if (overflowed) {
    // Below this gradients are lost whatever the factor is.
    constexpr double kLeast = 1e-6;
    scale_ = std::max(scale_ * options_.backoff_factor, kLeast);
    growth_steps_ = 0;
  } else if (++growth_steps_ >= options_.growth_interval) {
    scale_ *= options_.growth_factor;
    growth_steps_ = 0;
  }
}

void GradScaler::Restore(double scale, int64_t growth_steps) {
  scale_ = scale;
  growth_steps_ = growth_steps;
}

}  // namespace adaptdl
