#include "services/supervisor/costs/holders.h"

#include <algorithm>
#include <cstdint>

namespace adaptdl::supervisor {
namespace {

double AmountRatio(int64_t need, int64_t capacity) {
  if (need <= 0) return 0;
  return capacity <= 0 ? 1 : static_cast<double>(need) / static_cast<double>(capacity);
}

// Of one replica.
double DominantPart(const v1::Resources& need, const v1::Resources& capacity) {
  double part = std::max({AmountRatio(need.cpu_millis(), capacity.cpu_millis()),
                          AmountRatio(need.memory_bytes(), capacity.memory_bytes()),
                          AmountRatio(need.gpus(), capacity.gpus())});
  for (const auto& [name, amount] : need.extended()) {
    const auto there = capacity.extended().find(name);
    part = std::max(part, AmountRatio(amount, there == capacity.extended().end() ? 0 : there->second));
  }
  return part;
}

}  // namespace

std::vector<Holder> PartsOf(const v1::Resources& capacity, const std::vector<Residents>& residents) {
  std::vector<Holder> holders;
  double sum = 0;
  int modest = 0;  // Replicas that ask for nothing.
  for (const Residents& resident : residents) {
    Holder& holder = holders.emplace_back(resident.job);
    holder.part = std::min(1.0, resident.replicas * DominantPart(resident.need, capacity));
    sum += holder.part;
    if (holder.part <= 0) modest += resident.replicas;
  }
  const double left = std::max(0.0, 1 - sum);
  for (size_t i = 0; i < holders.size(); ++i) {
    if (holders[i].part <= 0) {
      holders[i].part = left * residents[i].replicas / std::max(1, modest);
    } else if (sum > 1) {
      holders[i].part /= sum;
    }
  }
  return holders;
}

}  // namespace adaptdl::supervisor
