// Which news of a job's hints are worth a write of their own: replicas report them all the time, and they hardly change.
//
// Pure; thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_STORE_HINTS_GATE_H_
#define ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_STORE_HINTS_GATE_H_

#include "absl/time/time.h"
#include "adaptdl/v1/hints.pb.h"

namespace adaptdl::supervisor {

// Hints of one job are written no more often than this, unless something else is written anyway.
inline constexpr absl::Duration kHintsPeriod = absl::Minutes(1);
// And only if something that the allocator makes of them has moved by so much.
inline constexpr double kHintsChange = 0.05;

// Whether the allocator would predict something else from `now` than from `before`: the throughput with `replicas` or twice
// as many differs, or the noise scale of the gradient, or what batch sizes and numbers of replicas are allowed.
bool HintsMoved(const v1::Hints& before, const v1::Hints& now, int replicas);

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_STORE_HINTS_GATE_H_
