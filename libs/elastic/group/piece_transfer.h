// How the pieces of a state (checkpoint/piecewise_state.h) travel: each goes from where it lies to where it
// belongs, in blocks, main memory and a device's alike. Small ones travel with their neighbours.
//
// All members come to the same collectives, from what the source says of its pieces.
//
// Thread-safety: as of the communicator.

#ifndef ADAPTDL_LIBS_ELASTIC_GROUP_PIECE_TRANSFER_H_
#define ADAPTDL_LIBS_ELASTIC_GROUP_PIECE_TRANSFER_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "libs/comm/communicator.h"
#include "libs/elastic/checkpoint/piecewise_state.h"

namespace adaptdl::elastic {

struct Pieces {
  // In bytes.
  std::vector<int64_t> sizes = {};
  // Of each, whether it travels from device to device. Empty: none does.
  std::vector<bool> on_device = {};
};

// From device to device goes what lies on the communicator's.
Pieces PiecesOf(const comm::Communicator& communicator, StateReader& reader);

// This member's go to all others.
absl::Status SendPieces(comm::Communicator& communicator, const Pieces& pieces, StateReader& reader);
// The sizes of the writer are those of the pieces. Commits it.
absl::Status ReceivePieces(comm::Communicator& communicator, int source, const Pieces& pieces,
                           StateWriter& writer);
// Only passes on, with no more memory than a block.
absl::Status PassPieces(comm::Communicator& communicator, int source, const Pieces& pieces);

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_GROUP_PIECE_TRANSFER_H_
