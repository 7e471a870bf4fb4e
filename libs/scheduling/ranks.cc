#include "libs/scheduling/ranks.h"

namespace adaptdl::scheduling {

std::vector<std::string> OrderRanks(const std::vector<std::string>& present,
                                    std::map<std::string, int> replicas) {
  std::vector<std::string> ranks;
  for (const std::string& node : present) {
    const auto found = replicas.find(node);
    if (found == replicas.end() || found->second == 0) continue;
    --found->second;
    ranks.push_back(node);
  }
  for (const auto& [node, count] : replicas) ranks.insert(ranks.end(), count, node);
  return ranks;
}

}  // namespace adaptdl::scheduling
