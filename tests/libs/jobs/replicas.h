// Short ways to write replicas in tests.

#ifndef ADAPTDL_TESTS_LIBS_JOBS_REPLICAS_H_
#define ADAPTDL_TESTS_LIBS_JOBS_REPLICAS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/jobs/job.h"

namespace adaptdl::jobs {

inline Replica Member(int rank, ReplicaState state, int64_t group = 2) {
  Replica replica;
  replica.id = absl::StrCat("job-0-", group, "-", rank);
  replica.group = group;
  replica.rank = rank;
  replica.node = absl::StrCat("n", rank + 1);
  replica.state = state;
  return replica;
}
inline Replica Launching(int rank) { return Member(rank, ReplicaState::kLaunching); }
inline Replica Running(int rank) { return Member(rank, ReplicaState::kRunning); }
inline Replica Exited(int rank, int code) {
  Replica replica = Member(rank, ReplicaState::kExited);
  replica.exit_code = code;
  return replica;
}
inline Replica Killed(int rank, int signal) {
  Replica replica = Member(rank, ReplicaState::kExited);
  replica.signal = signal;
  return replica;
}
inline Replica Lost(int rank, LossCause cause = LossCause::kNode) {
  Replica replica = Member(rank, ReplicaState::kLost);
  replica.loss = cause;
  return replica;
}
inline Replica Asked(Replica replica) {
  replica.stop_requested = true;
  return replica;
}
inline Desired Wants(std::vector<std::string> nodes) {
  Desired desired;
  desired.nodes = std::move(nodes);
  return desired;
}
inline Replica Leaving(Replica replica) {
  replica.node_leaving = true;
  return replica;
}

}  // namespace adaptdl::jobs

#endif  // ADAPTDL_TESTS_LIBS_JOBS_REPLICAS_H_
