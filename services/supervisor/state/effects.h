// What follows from a change outside of the state. It leaves when the change is durable, and not at all if
// the store refuses the change. Plain values.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_STATE_EFFECTS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_STATE_EFFECTS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "adaptdl/v1/node_service.pb.h"
#include "adaptdl/v1/replica_service.pb.h"
#include "services/supervisor/state/metrics.h"

namespace adaptdl::supervisor {

// Carried out in this order.
struct Effects {
  struct Command {
    std::string replica_id;
    v1::ReplicaCommand command;
    std::string reason;
    v1::GroupPlan plan = {};  // Of RESCALE.
  };
  // Sessions of the node end, but for the current one.
  struct EndedSession {
    std::string node_id;
    int64_t current = 0;
    absl::Status why;
  };
  // Replicas that have ended or do not belong to their job any more.
  std::vector<std::string> fenced;
  std::vector<EndedSession> ended_sessions;
  std::vector<std::pair<std::string, v1::LaunchReplica>> launches;  // First: the node.
  std::vector<std::pair<std::string, v1::StopReplica>> stops;
  std::vector<Command> commands;
  std::vector<std::pair<std::string, std::string>> acknowledgements;  // Node, replica.
  std::vector<std::pair<std::string, v1::DeleteJobFiles>> deletions;
  // For the metrics: reasons of restarts, and times that phases of changes in place took.
  std::vector<std::string> restarts;
  std::vector<std::pair<std::string, absl::Duration>> rescale_phases;
  // Whatever else is to be logged or counted. The metrics may be null.
  std::vector<std::function<void(Metrics*)>> reports;

  bool empty() const {
    return fenced.empty() && ended_sessions.empty() && launches.empty() && stops.empty() &&
           commands.empty() && acknowledgements.empty() && deletions.empty() && restarts.empty() &&
           rescale_phases.empty() && reports.empty();
  }
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_STATE_EFFECTS_H_
