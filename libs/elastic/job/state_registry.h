// What a job is, as named states: registered by their owners, loaded from a checkpoint or from a replica that
// trains, collected for a checkpoint, and handed over to newcomers.
//
// States that were restored are kept for those that register later, or never. States that are expected get
// what another replica holds straight into their memory.
//
// Thread-safety: the training thread only.

#ifndef ADAPTDL_LIBS_ELASTIC_JOB_STATE_REGISTRY_H_
#define ADAPTDL_LIBS_ELASTIC_JOB_STATE_REGISTRY_H_

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "adaptdl/job.h"
#include "libs/comm/communicator.h"
#include "libs/elastic/checkpoint/checkpoint_store.h"

namespace adaptdl::elastic {

class StateRegistry {
 public:
  // States are not owned. `expected`: those that are registered right after the replicas have met.
  explicit StateRegistry(std::vector<CheckpointState*> expected) : expected_(std::move(expected)) {}

  // For what may be received.
  void ReserveMemory();

  // Whether the restored states held it; then it is loaded. An error is the program's: its message says what
  // to do. `says`: whether this replica tells on stderr what is missing.
  absl::StatusOr<bool> Register(CheckpointState* state, bool says);
  void Unregister(CheckpointState* state);

  // What is spread over the replicas becomes known to all.
  void Sync();

  // The states of a checkpoint. Empty: there is none.
  void Restore(StateMap states);
  bool restored() const { return !restored_.empty(); }
  // Empty: there is none of that name.
  std::string Restored(const std::string& name) const;

  // All states. `own`: those that are not registered. `states` comes with what an earlier checkpoint held,
  // for its memory. Throws what states throw.
  void Collect(const StateMap& own, StateMap* states);

  // Collective: to newcomers, all states; and from member `source`, at a newcomer, in place of Restore().
  absl::Status Send(comm::Communicator& communicator, StateMap own);
  absl::Status Receive(comm::Communicator& communicator, int source);
  // Whether something here is another replica's, if only in part because that was lost meanwhile.
  bool has_others_state() const { return has_others_state_; }

  // What an optimiser step changed.
  void SaveStep(StateMap* states);
  absl::Status LoadStep(const StateMap& states);

 private:
  class Receiver;

  const std::vector<CheckpointState*> expected_;
  std::vector<CheckpointState*> states_;
  StateMap restored_;
  // Expected states that hold what another replica's did, and were not registered yet.
  std::set<CheckpointState*> received_;
  bool has_others_state_ = false;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_JOB_STATE_REGISTRY_H_
