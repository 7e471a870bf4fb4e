// Who keeps what replicas have written beyond their pods (services/supervisor/kubernetes/logs).
//
// Thread-safety: implementations are thread-safe. No call waits.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_PODS_OUTPUT_KEEPER_H_
#define ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_PODS_OUTPUT_KEEPER_H_

#include "absl/time/time.h"
#include "services/supervisor/kubernetes/pods/pod.h"

namespace adaptdl::supervisor {

class OutputKeeper {
 public:
  virtual ~OutputKeeper() = default;

  // The pod is about to be deleted: its output is taken from now on, as its node may forget it right after its end.
  virtual void Follow(const PodValue& pod) = 0;
  // How long the pod, which is over, is to stay at most until its output is kept. Zero: no longer.
  virtual absl::Duration Detain(const PodValue& pod) = 0;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_PODS_OUTPUT_KEEPER_H_
