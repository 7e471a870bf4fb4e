// Carries out what follows from changes: tells replicas and nodes, and counts. Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_REPLICAS_EFFECT_RUNNER_H_
#define ADAPTDL_SERVICES_SUPERVISOR_REPLICAS_EFFECT_RUNNER_H_

#include "services/supervisor/jobs/replica_launcher.h"
#include "services/supervisor/replicas/replica_sessions.h"
#include "services/supervisor/state/effects.h"
#include "services/supervisor/state/metrics.h"

namespace adaptdl::supervisor {

// `metrics` may be null.
void CarryOut(const Effects& effects, ReplicaSessions* sessions, ReplicaLauncher* launcher, Metrics* metrics);

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_REPLICAS_EFFECT_RUNNER_H_
