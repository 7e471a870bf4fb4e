// What is known of replicas that are there: their last signs of life. Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_JOBS_PULSE_SOURCE_H_
#define ADAPTDL_SERVICES_SUPERVISOR_JOBS_PULSE_SOURCE_H_

#include <set>
#include <string>

#include "absl/time/time.h"
#include "adaptdl/v1/replica_service.pb.h"

namespace adaptdl::supervisor {

// A replica's last heartbeat.
struct Pulse {
  // Steady. InfinitePast: none has come.
  absl::Time heard = absl::InfinitePast();
  v1::Activity activity;
};

class PulseSource {
 public:
  virtual ~PulseSource() = default;
  virtual Pulse LastPulse(const std::string& replica_id) = 0;
  // Jobs (uids) of which a replica has said, since the last call, that it waits for others.
  virtual std::set<std::string> TakeWaiting() = 0;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_JOBS_PULSE_SOURCE_H_
