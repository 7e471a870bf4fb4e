// Named states on their way from one member of a group to others, through memory.
//
// Thread-safety: as of the communicator.

#ifndef ADAPTDL_LIBS_ELASTIC_STATE_TRANSFER_H_
#define ADAPTDL_LIBS_ELASTIC_STATE_TRANSFER_H_

#include "absl/status/status.h"
#include "libs/comm/communicator.h"
#include "libs/elastic/checkpoint_store.h"

namespace adaptdl::elastic {

// Collective. Gives `*states` of member `source` to those members that say `wanted`; of the others it is left
// as it is. All members pass every byte on, in pieces, so that the time is about that of one copy over one
// link, however many members there are.
absl::Status BroadcastStates(comm::Communicator& communicator, int source, bool wanted, StateMap* states);

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_STATE_TRANSFER_H_
