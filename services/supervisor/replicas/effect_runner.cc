#include "services/supervisor/replicas/effect_runner.h"

#include "absl/status/status.h"

namespace adaptdl::supervisor {

void CarryOut(const Effects& effects, ReplicaSessions* sessions, ReplicaLauncher* launcher,
              Metrics* metrics) {
  for (const auto& replica : effects.fenced) {
    sessions->Forget(replica, absl::AbortedError("this replica's group is over; it must stop"));
  }
  for (const auto& session : effects.ended_sessions) {
    launcher->EndSession(session.node_id, session.current, session.why);
  }
  for (const auto& [node, launch] : effects.launches) launcher->Launch(node, launch);
  for (const auto& [node, stop] : effects.stops) launcher->Stop(node, stop);
  for (const auto& command : effects.commands) {
    sessions->Command(command.replica_id, command.command, command.reason, command.plan);
  }
  for (const auto& [node, replica] : effects.acknowledgements) launcher->Acknowledge(node, replica);
  for (const auto& [node, files] : effects.deletions) launcher->DeleteJobFiles(node, files);
  for (const auto& report : effects.reports) report(metrics);
  if (metrics == nullptr) return;
  for (const auto& cause : effects.restarts) metrics->CountRestart(cause);
  for (const auto& [phase, duration] : effects.rescale_phases) metrics->ObserveRescale(phase, duration);
}

}  // namespace adaptdl::supervisor
