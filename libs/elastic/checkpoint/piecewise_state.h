// Large states that lie in memory in pieces (tensors), so that they can go from one process's memory into
// another's, or into a checkpoint, without a copy between.
//
// What Save() returns for such a state is its head, a short text, and then the pieces, in order. Who has read
// the head knows how many there are, and how large.
//
// Thread-safety: as the state's.

#ifndef ADAPTDL_LIBS_ELASTIC_CHECKPOINT_PIECEWISE_STATE_H_
#define ADAPTDL_LIBS_ELASTIC_CHECKPOINT_PIECEWISE_STATE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace adaptdl::elastic {

// A state that is being read. The state must not change meanwhile.
class StateReader {
 public:
  virtual ~StateReader() = default;
  virtual const std::string& head() const = 0;
  // Bytes of each piece.
  virtual const std::vector<int64_t>& sizes() const = 0;
  // Piece `index`, valid until the next call.
  virtual const char* Read(size_t index) = 0;
};

// A state that is being written: each piece once, in order, and Commit() in the end. Before that the state is
// neither what it was nor what it shall be.
class StateWriter {
 public:
  virtual ~StateWriter() = default;
  virtual const std::vector<int64_t>& sizes() const = 0;
  // Where the bytes of piece `index` belong, until Close() is called for it.
  virtual char* Open(size_t index) = 0;
  virtual void Close(size_t index) = 0;
  virtual absl::Status Commit() = 0;
};

class PiecewiseState {
 public:
  virtual ~PiecewiseState() = default;

  // May throw what Save() throws.
  virtual std::unique_ptr<StateReader> Read() = 0;
  // Checks all that the head says before anything is changed. INVALID_ARGUMENT: a state with this head cannot
  // be taken over.
  virtual absl::StatusOr<std::unique_ptr<StateWriter>> Write(const std::string& head) = 0;

  // Gets memory for a state that is about to be written, as far as can be told what that needs: new pages
  // take time, and others may wait later on. Release() gives back what was not needed.
  virtual void Reserve() {}
  virtual void Release() {}
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_CHECKPOINT_PIECEWISE_STATE_H_
