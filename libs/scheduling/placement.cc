#include "libs/scheduling/placement.h"

namespace adaptdl::scheduling {

int CountReplicas(const Placement& placement) {
  int count = 0;
  for (const Share& share : placement) count += share.replicas;
  return count;
}

}  // namespace adaptdl::scheduling
