// Pairs of nodes on which no job is to have replicas together for a while, as replicas there did not reach
// each other. A plain value; soft: a later supervisor finds out again.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_STATE_SEPARATIONS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_STATE_SEPARATIONS_H_

#include <map>
#include <string>
#include <utility>

#include "absl/time/time.h"

namespace adaptdl::supervisor {

// The lesser id first.
using NodePair = std::pair<std::string, std::string>;

struct Separation {
  // Until when they are kept apart, and for how long that was. Known for a while after that: should it happen
  // again, the next time is longer.
  absl::Time until;
  absl::Duration length;
  bool over = false;
};

using Separations = std::map<NodePair, Separation>;

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_STATE_SEPARATIONS_H_
