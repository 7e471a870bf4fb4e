// Machines that the autoscaler says are its own: who asks to join as one of them is believed. A plain interface, so that
// those who let nodes in need not know where it is kept.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_POOLS_VOUCHED_NODES_H_
#define ADAPTDL_SERVICES_SUPERVISOR_POOLS_VOUCHED_NODES_H_

#include <optional>
#include <string>

#include "absl/time/time.h"

namespace adaptdl::supervisor {

struct Vouched {
  std::string node_id;
  std::string pool;
  // What its cloud calls it. Not empty.
  std::string instance_id;
  // IP address from which it speaks to the supervisor. Empty: not known yet.
  std::string address;
  // Wall time. InfinitePast: nobody says.
  absl::Time create_time = absl::InfinitePast();
};

// Implementations are thread-safe.
class VouchedNodes {
 public:
  virtual ~VouchedNodes() = default;
  // Absent: nobody vouches for such a machine.
  virtual std::optional<Vouched> Find(const std::string& instance_id) const = 0;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_POOLS_VOUCHED_NODES_H_
