#include "libs/scheduling/sizes.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace adaptdl::scheduling {

bool AllowsSize(const JobInfo& job, int replicas) {
  if (replicas < job.min_replicas || replicas > job.max_replicas) return false;
  return job.allowed_replicas.empty() ||
         std::binary_search(job.allowed_replicas.begin(), job.allowed_replicas.end(), replicas);
}

void AllowedSizes(const JobInfo& job, int per_node, int most_nodes, std::vector<int>* sizes) {
  sizes->clear();
  const int most =
      static_cast<int>(std::min<int64_t>(job.max_replicas, static_cast<int64_t>(per_node) * most_nodes));
  const auto add = [&](int k) {
    if (k <= most && AllowsSize(job, k) && (sizes->empty() || sizes->back() != k)) sizes->push_back(k);
  };
  for (int k = 1; k < std::min(per_node, most); k *= 2) add(k);
  for (int k = per_node; k < most; k += per_node) add(k);
  add(most);
  const size_t regular = sizes->size();
  if (job.min_replicas > 1) add(job.min_replicas);
  for (const int k : job.allowed_replicas) add(k);
  if (sizes->size() == regular) return;
  std::sort(sizes->begin(), sizes->end());
  sizes->erase(std::unique(sizes->begin(), sizes->end()), sizes->end());
}

}  // namespace adaptdl::scheduling
