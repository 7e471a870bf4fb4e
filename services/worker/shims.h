// The shims of this node's replicas, as the worker uses them: the seam between what the worker decides and
// the processes it decides about.

#ifndef ADAPTDL_SERVICES_WORKER_SHIMS_H_
#define ADAPTDL_SERVICES_WORKER_SHIMS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "services/worker/shim/records.h"

namespace adaptdl::worker {

// Told what becomes of replicas. Called from a thread of the Shims', one call at a time, without any lock
// held.
class ShimListener {
 public:
  virtual ~ShimListener() = default;
  // The process runs. May be repeated.
  virtual void OnRunning(const std::string& replica_id, const RunningRecord& record) = 0;
  // All is over, or nobody knows what happened (record.lost). Once per replica.
  virtual void OnExited(const std::string& replica_id, const ExitRecord& record) = 0;
};

// Thread-safe. Calls may be made with locks held that the listener takes too. Launch() waits for disks and
// for the process to start, the others for nothing.
class Shims {
 public:
  virtual ~Shims() = default;

  // Sets who is told; before any other call.
  virtual void SetListener(ShimListener* listener) = 0;

  // Starts a shim for the replica whose launch.json lies in `folder`.
  virtual absl::Status Launch(const std::string& replica_id, const std::string& folder) = 0;

  // Finds the shim that an earlier worker started for the replica in `folder`, or what it left. The listener
  // is told.
  virtual void Attach(const std::string& replica_id, const std::string& folder) = 0;

  // SIGTERM, the grace period, SIGKILL. Remembered until the shim can be reached.
  virtual void Stop(const std::string& replica_id, absl::Duration grace_period,
                    const std::string& reason) = 0;
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_SHIMS_H_
