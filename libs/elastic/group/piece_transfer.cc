#include "libs/elastic/group/piece_transfer.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/device/device.h"

namespace adaptdl::elastic {
namespace {

// Of one collective over main memory. Those who do not want the states need no more memory than this.
constexpr int64_t kBlockBytes = int64_t{32} << 20;
// Of one over a device's memory; and how many are under way, so that their stages overlap.
constexpr int64_t kDeviceBlockBytes = int64_t{8} << 20;
constexpr size_t kDeviceBlocks = 4;
// Pieces below this size travel with their neighbours, so many in one go: a collective takes longer.
constexpr int64_t kSmallPiece = 64 << 10;
constexpr int64_t kBundleBytes = int64_t{4} << 20;

// --- Bytes in one place ---

absl::Status BroadcastHost(comm::Communicator& communicator, int source, char* bytes, int64_t size) {
  for (int64_t begin = 0; begin < size; begin += kBlockBytes) {
    const comm::Buffer block{bytes + begin, std::min(kBlockBytes, size - begin), comm::DataType::kUint8};
    if (absl::Status status = communicator.Broadcast(block, source); !status.ok()) return status;
  }
  return absl::OkStatus();
}

// Returns when all of it is there.
absl::Status BroadcastDevice(comm::Communicator& communicator, int source, const DevicePiece& piece,
                             int64_t size) {
  std::deque<std::unique_ptr<comm::Work>> works;
  absl::Status status;
  const auto finish_oldest = [&] {
    status.Update(works.front()->Wait());
    works.pop_front();
  };
  for (int64_t begin = 0; begin < size && status.ok(); begin += kDeviceBlockBytes) {
    if (works.size() == kDeviceBlocks) finish_oldest();
    works.push_back(communicator.BroadcastAsync(
        {static_cast<char*>(piece.data) + begin, std::min(kDeviceBlockBytes, size - begin),
         comm::DataType::kUint8, piece.device, piece.stream},
        source));
  }
  while (!works.empty()) finish_oldest();
  return status;
}

// --- Bundles ---

// Consecutive pieces that travel in one go; all members come to the same ones.
struct Bundle {
  size_t begin = 0;
  size_t end = 0;
  int64_t bytes = 0;
  bool on_device = false;

  bool single() const { return end - begin == 1; }
};

std::vector<Bundle> BundlesOf(const Pieces& pieces) {
  std::vector<Bundle> bundles;
  bool open = false;
  for (size_t i = 0; i < pieces.sizes.size(); ++i) {
    const int64_t size = pieces.sizes[i];
    const bool on_device = !pieces.on_device.empty() && pieces.on_device[i];
    const bool small = size < kSmallPiece;
    if (!small || !open || bundles.back().on_device != on_device ||
        bundles.back().bytes + size > kBundleBytes) {
      bundles.push_back({i, i, 0, on_device});
    }
    bundles.back().end = i + 1;
    bundles.back().bytes += size;
    open = small;
  }
  return bundles;
}

// Memory for what has no place of its own on this member, kept from bundle to bundle.
class Staging {
 public:
  explicit Staging(device::Device* device) : device_(device) {}

  char* Host(int64_t bytes) {
    host_.resize(static_cast<size_t>(bytes));
    return host_.data();
  }

  absl::StatusOr<DevicePiece> OnDevice(int64_t bytes) {
    if (device_ == nullptr) {
      return absl::FailedPreconditionError(
          "the state of another replica comes from a GPU, and this one exchanges main memory only: let all "
          "replicas use GPUs, or none");
    }
    if (memory_.bytes() < bytes) {
      absl::StatusOr<device::Memory> memory = device_->Allocate(bytes);
      if (!memory.ok()) return memory.status();
      memory_ = *std::move(memory);
    }
    return DevicePiece{memory_.data(), device_, nullptr};
  }

  // Waits until `stream` has come here.
  absl::Status Await(device::Stream stream) {
    if (event_ == nullptr) {
      absl::StatusOr<std::unique_ptr<device::Event>> event = device_->CreateEvent(/*timed=*/false);
      if (!event.ok()) return event.status();
      event_ = *std::move(event);
    }
    if (absl::Status status = device_->Record(*event_, stream); !status.ok()) return status;
    return device_->Await(*event_);
  }

  // Of the device's memory into main memory.
  absl::Status CopyToHost(void* to, const DevicePiece& from, int64_t bytes) {
    absl::StatusOr<device::Memory> pinned = device_->AllocateHost(std::max<int64_t>(bytes, 1));
    if (!pinned.ok()) return pinned.status();
    absl::Status status = device_->Copy(pinned->data(), from.data, bytes, from.stream);
    if (status.ok()) status = Await(from.stream);
    if (status.ok() && bytes > 0) std::memcpy(to, pinned->data(), static_cast<size_t>(bytes));
    return status;
  }

 private:
  device::Device* const device_;
  std::string host_;
  device::Memory memory_;
  std::unique_ptr<device::Event> event_;
};

DevicePiece Part(const DevicePiece& piece, int64_t begin) {
  return {static_cast<char*>(piece.data) + begin, piece.device, piece.stream};
}

// --- The source ---

absl::Status SendOnDevice(comm::Communicator& communicator, const Pieces& pieces, const Bundle& bundle,
                          StateReader& reader, Staging& staging) {
  if (bundle.single()) {
    return BroadcastDevice(communicator, communicator.rank(), *reader.OnDevice(bundle.begin), bundle.bytes);
  }
  absl::StatusOr<DevicePiece> gathered = staging.OnDevice(bundle.bytes);
  if (!gathered.ok()) return gathered.status();
  // All of a state's pieces are ready on one stream.
  gathered->stream = reader.OnDevice(bundle.begin)->stream;
  int64_t begin = 0;
  for (size_t i = bundle.begin; i < bundle.end; ++i) {
    const DevicePiece piece = *reader.OnDevice(i);
    absl::Status status =
        piece.device->Copy(Part(*gathered, begin).data, piece.data, pieces.sizes[i], gathered->stream);
    if (!status.ok()) return status;
    begin += pieces.sizes[i];
  }
  return BroadcastDevice(communicator, communicator.rank(), *gathered, bundle.bytes);
}

absl::Status SendFromHost(comm::Communicator& communicator, const Pieces& pieces, const Bundle& bundle,
                          StateReader& reader, Staging& staging) {
  if (bundle.single()) {
    // Only read: this member is the source.
    char* const piece = const_cast<char*>(reader.Read(bundle.begin));
    return BroadcastHost(communicator, communicator.rank(), piece, bundle.bytes);
  }
  char* const gathered = staging.Host(bundle.bytes);
  char* to = gathered;
  for (size_t i = bundle.begin; i < bundle.end; ++i) {
    const auto bytes = static_cast<size_t>(pieces.sizes[i]);
    const char* const piece = reader.Read(i);
    if (bytes > 0) std::memcpy(to, piece, bytes);
    to += bytes;
  }
  return BroadcastHost(communicator, communicator.rank(), gathered, bundle.bytes);
}

// --- The others ---

// A piece that came to the device goes to its place, there or in main memory.
absl::Status Place(const DevicePiece& from, size_t index, int64_t bytes, StateWriter& writer,
                   Staging& staging) {
  const std::optional<DevicePiece> to = writer.OpenOnDevice(index);
  if (to) return to->device->Copy(to->data, from.data, bytes, to->stream);
  return staging.CopyToHost(writer.Open(index), from, bytes);
}

absl::Status ReceiveOnDevice(comm::Communicator& communicator, int source, const Pieces& pieces,
                             const Bundle& bundle, StateWriter& writer, Staging& staging) {
  if (bundle.single()) {
    if (const std::optional<DevicePiece> place = writer.OpenOnDevice(bundle.begin)) {
      absl::Status status = BroadcastDevice(communicator, source, *place, bundle.bytes);
      if (status.ok()) writer.Close(bundle.begin);
      return status;
    }
  }
  const absl::StatusOr<DevicePiece> staged = staging.OnDevice(bundle.bytes);
  if (!staged.ok()) return staged.status();
  if (absl::Status status = BroadcastDevice(communicator, source, *staged, bundle.bytes); !status.ok()) {
    return status;
  }
  int64_t begin = 0;
  device::Stream used = nullptr;
  for (size_t i = bundle.begin; i < bundle.end; ++i) {
    if (const std::optional<DevicePiece> to = writer.OpenOnDevice(i)) used = to->stream;
    absl::Status status = Place(Part(*staged, begin), i, pieces.sizes[i], writer, staging);
    if (!status.ok()) return status;
    writer.Close(i);
    begin += pieces.sizes[i];
  }
  // The next bundle comes into the same memory.
  return staging.Await(used);
}

absl::Status ReceiveOnHost(comm::Communicator& communicator, int source, const Pieces& pieces,
                           const Bundle& bundle, StateWriter& writer, Staging& staging) {
  if (bundle.single()) {
    absl::Status status = BroadcastHost(communicator, source, writer.Open(bundle.begin), bundle.bytes);
    if (status.ok()) writer.Close(bundle.begin);
    return status;
  }
  char* const gathered = staging.Host(bundle.bytes);
  absl::Status status = BroadcastHost(communicator, source, gathered, bundle.bytes);
  if (!status.ok()) return status;
  const char* from = gathered;
  for (size_t i = bundle.begin; i < bundle.end; ++i) {
    const auto bytes = static_cast<size_t>(pieces.sizes[i]);
    if (bytes > 0) std::memcpy(writer.Open(i), from, bytes);
    writer.Close(i);
    from += bytes;
  }
  return absl::OkStatus();
}

}  // namespace

Pieces PiecesOf(const comm::Communicator& communicator, StateReader& reader) {
  Pieces pieces{.sizes = reader.sizes()};
  if (communicator.device() == nullptr) return pieces;
  for (size_t i = 0; i < pieces.sizes.size(); ++i) {
    const std::optional<DevicePiece> piece = reader.OnDevice(i);
    pieces.on_device.push_back(piece && piece->device == communicator.device());
  }
  return pieces;
}

absl::Status SendPieces(comm::Communicator& communicator, const Pieces& pieces, StateReader& reader) {
  Staging staging(communicator.device());
  for (const Bundle& bundle : BundlesOf(pieces)) {
    absl::Status status = bundle.on_device ? SendOnDevice(communicator, pieces, bundle, reader, staging)
                                           : SendFromHost(communicator, pieces, bundle, reader, staging);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status ReceivePieces(comm::Communicator& communicator, int source, const Pieces& pieces,
                           StateWriter& writer) {
  Staging staging(communicator.device());
  for (const Bundle& bundle : BundlesOf(pieces)) {
    absl::Status status = bundle.on_device
                              ? ReceiveOnDevice(communicator, source, pieces, bundle, writer, staging)
                              : ReceiveOnHost(communicator, source, pieces, bundle, writer, staging);
    if (!status.ok()) return status;
  }
  return writer.Commit();
}

absl::Status PassPieces(comm::Communicator& communicator, int source, const Pieces& pieces) {
  Staging staging(communicator.device());
  for (const Bundle& bundle : BundlesOf(pieces)) {
    // In the same blocks as the others, so that all come to the same collectives.
    const int64_t block = bundle.on_device ? kDeviceBlockBytes : kBlockBytes;
    for (int64_t begin = 0; begin < bundle.bytes; begin += block) {
      const int64_t count = std::min(block, bundle.bytes - begin);
      absl::Status status;
      if (bundle.on_device) {
        const absl::StatusOr<DevicePiece> staged = staging.OnDevice(count);
        status = staged.ok() ? BroadcastDevice(communicator, source, *staged, count) : staged.status();
      } else {
        status = BroadcastHost(communicator, source, staging.Host(count), count);
      }
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace adaptdl::elastic
