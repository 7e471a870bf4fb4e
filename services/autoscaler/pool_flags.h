// The flags of an autoscaler with one pool, which needs no pool file. Not thread-safe.

#ifndef ADAPTDL_SERVICES_AUTOSCALER_POOL_FLAGS_H_
#define ADAPTDL_SERVICES_AUTOSCALER_POOL_FLAGS_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/nodepools/target.h"
#include "services/autoscaler/pool_set.h"

namespace CLI {
class App;
}

namespace adaptdl::autoscaler {

struct PoolFlags {
  std::string name = "local";
  std::string provider = "process";
  std::optional<int> min_nodes;
  std::optional<int> max_nodes;
  std::string target = "band";
  nodepools::Target wanted;
  double node_price_per_hour = 0;
  std::string deadline;
};

void AddPoolFlags(CLI::App& app, PoolFlags* flags);

// The pool without its provider, and what it aims at. INVALID_ARGUMENT names the flag.
absl::StatusOr<PoolSet> Interpret(const PoolFlags& flags);

}  // namespace adaptdl::autoscaler

#endif  // ADAPTDL_SERVICES_AUTOSCALER_POOL_FLAGS_H_
