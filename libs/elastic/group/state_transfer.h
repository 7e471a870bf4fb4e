// Named states on their way from one member of a group to others. Large ones go from memory to memory: what
// is in the way are their names, heads and sizes, which travel first.
//
//   rank 2 (source)                    SendStates(communicator, states)
//   ranks 0 and 3, which want them     ReceiveStates(communicator, 2, &receiver)
//   rank 1                             ReceiveStates(communicator, 2, nullptr)
//
// All members pass every byte on, in pieces, so that the time is about that of one copy over one link,
// however many members there are. A failure in the middle leaves states of the receivers half written.
//
// Thread-safety: as of the communicator.

#ifndef ADAPTDL_LIBS_ELASTIC_GROUP_STATE_TRANSFER_H_
#define ADAPTDL_LIBS_ELASTIC_GROUP_STATE_TRANSFER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/comm/communicator.h"
#include "libs/elastic/checkpoint/checkpoint_store.h"
#include "libs/elastic/checkpoint/piecewise_state.h"

namespace adaptdl::elastic {

// A state to be sent; nothing is owned.
struct OutgoingState {
  std::string name;
  // All of it, unless `reader` is set.
  absl::string_view bytes;
  StateReader* reader = nullptr;
};

// Where states go.
class StateReceiver {
 public:
  virtual ~StateReceiver() = default;
  // What the pieces that follow `head` are to be written with; is committed here. Null: none, then Receive()
  // is called with head and pieces in one. An error ends the transfer. Not owned.
  virtual absl::StatusOr<StateWriter*> Open(const std::string& name, const std::string& head) = 0;
  virtual void Receive(const std::string& name, std::string bytes) = 0;
};

// Collective, in which one member sends.
absl::Status SendStates(comm::Communicator& communicator, const std::vector<OutgoingState>& states);
// ... and the others receive. Null: this one only passes on.
absl::Status ReceiveStates(comm::Communicator& communicator, int source, StateReceiver* receiver);

// Both in one, for states that are bytes: gives `*states` of member `source` to those members that say
// `wanted`. Of the others, and unless all have arrived, it is left as it is.
absl::Status BroadcastStates(comm::Communicator& communicator, int source, bool wanted, StateMap* states);

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_GROUP_STATE_TRANSFER_H_
