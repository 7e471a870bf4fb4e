#include "libs/nodepools/refusals.h"

#include <algorithm>

namespace adaptdl::nodepools {

void Refusals::Refused(const std::string& pool, const std::string& why, absl::Time now) {
  const auto [found, is_new] = refusals_.try_emplace(pool);
  Entry& entry = found->second;
  entry.pause = is_new ? options_.first_pause : std::min(2 * entry.pause, options_.longest_pause);
  if (is_new) entry.refusal.since = now;
  entry.refusal.why = why;
  entry.refusal.until = now + entry.pause;
}

std::optional<Refusals::Refusal> Refusals::Of(const std::string& pool) const {
  const auto found = refusals_.find(pool);
  if (found == refusals_.end()) return std::nullopt;
  return found->second.refusal;
}

}  // namespace adaptdl::nodepools
