// Large states that lie in memory in pieces (tensors), so that they can go from one process's memory into
// another's, or into a checkpoint, without a copy between.
//
// Pieces that lie on a device can be had there, for who can send or receive them so, and in main memory.
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
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libs/device/device.h"

namespace adaptdl::elastic {

// Where a piece lies on a device, its bytes one after the other.
struct DevicePiece {
  void* data = nullptr;
  // Not owned.
  device::Device* device = nullptr;
  // Where it is ready; and where it is used, once it was written.
  device::Stream stream = nullptr;
};

// A state that is being read. The state must not change meanwhile.
class StateReader {
 public:
  virtual ~StateReader() = default;
  virtual const std::string& head() const = 0;
  // Bytes of each piece.
  virtual const std::vector<int64_t>& sizes() const = 0;
  // Piece `index` in main memory, valid until the next call.
  virtual const char* Read(size_t index) = 0;
  // Nothing: it does not lie on a device in one piece. Stays as long as the reader.
  virtual std::optional<DevicePiece> OnDevice(size_t /*index*/) { return std::nullopt; }
};

// A state that is being written: each piece once, in order, and Commit() in the end. Before that the state is
// neither what it was nor what it shall be.
class StateWriter {
 public:
  virtual ~StateWriter() = default;
  virtual const std::vector<int64_t>& sizes() const = 0;
  // Where the bytes of piece `index` belong, until Close() is called for it. Or, instead, where they belong on a
  // device; nothing: they don't.
  virtual char* Open(size_t index) = 0;
  virtual std::optional<DevicePiece> OpenOnDevice(size_t /*index*/) { return std::nullopt; }
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
