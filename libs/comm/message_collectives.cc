#include "libs/comm/message_collectives.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace adaptdl::comm {
namespace {

// Data up to this size travels in the frame itself.
constexpr int64_t kInline = 16 << 10;
// An all-reduce is exchanged directly while all that one member sends is no more than this.
constexpr int64_t kDirectTotal = 64 << 10;
// Large data goes in pieces of this size, of which so many are asked for ahead: while one is added, the next
// comes in. Smaller ones cost more wake-ups than they save.
constexpr int64_t kPiece = 1 << 20;
constexpr int64_t kWindow = 2;

constexpr uint64_t kFrameSlot = 0;
constexpr uint64_t kDataSlots = uint64_t{1} << 63;

struct Range {
  int64_t begin = 0;  // in bytes
  int64_t bytes = 0;
};

// Part `index` of `parts` nearly equal ones of `count` elements from element `first` on; in elements.
Range Part(int64_t first, int64_t count, int64_t index, int64_t parts) {
  const int64_t begin = count * index / parts;
  return {first + begin, count * (index + 1) / parts - begin};
}

// The ring all-reduce of one member, as a list of pieces to send to the right and to receive from the left.
// The buffer has one segment per member. In steps 0 .. N-2 a member passes on a segment to which it has added
// its own, and ends up with one that is complete; in steps N-1 .. 2N-3 the complete ones go round. A piece is
// sent when the same piece of the step before has come in.
class Ring {
 public:
  Ring(int rank, int size, const Buffer& buffer)
      : rank_(rank),
        size_(size),
        count_(buffer.count),
        element_(ElementSize(buffer.type)),
        pieces_(((buffer.bytes() + size - 1) / size + kPiece - 1) / kPiece) {}

  int64_t pieces_per_step() const { return pieces_; }
  int64_t total() const { return int64_t{2} * (size_ - 1) * pieces_; }
  bool adds(int64_t index) const { return Step(index) < size_ - 1; }
  int Step(int64_t index) const { return static_cast<int>(index / pieces_); }

  Range Sent(int64_t index) const {
    const int step = Step(index);
    return Piece(step < size_ - 1 ? rank_ - step : rank_ + size_ - step, index);
  }
  Range Received(int64_t index) const {
    const int step = Step(index);
    return Piece(step < size_ - 1 ? rank_ - step - 1 : rank_ + size_ - 1 - step, index);
  }

 private:
  Range Piece(int segment, int64_t index) const {
    const Range of_segment = Part(0, count_, (segment + 2 * size_) % size_, size_);
    const Range piece = Part(of_segment.begin, of_segment.bytes, index % pieces_, pieces_);
    return {piece.begin * element_, piece.bytes * element_};
  }

  const int rank_;
  const int size_;
  const int64_t count_;
  const int64_t element_;
  const int64_t pieces_;
};

}  // namespace

MessageCollectives::MessageCollectives(int rank, int size, Transport* transport, Membership* membership)
    : rank_(rank),
      size_(size),
      transport_(transport),
      membership_(membership),
      frames_((sizeof(Header) + kInline) * size),
      outgoing_(size),
      incoming_(size),
      posted_(size, false),
      sending_(size, false),
      scratch_(kPiece * kWindow) {
  constexpr size_t kFrame = sizeof(Header) + kInline;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    outgoing_[peer] = transport_->Map(&frames_[kFrame * rank_], kFrame);
    incoming_[peer] = transport_->Map(&frames_[kFrame * peer], kFrame);
    PostFrame(peer);
  }
  scratch_region_ = transport_->Map(scratch_.data(), scratch_.size());
}

MessageCollectives::~MessageCollectives() = default;

void MessageCollectives::Abort() {
  MutexLock lock(&mutex_);
  aborted_ = true;
  if (waiting_ != nullptr) waiting_->Abort();
}

absl::Status MessageCollectives::Run(uint64_t number, absl::Duration timeout, Collective* collective) {
  number_ = number;
  signature_ = SignatureOf(*collective);
  if (absl::Status status = membership_->Begin(number, signature_, timeout); !status.ok()) return status;
  absl::Status status = Dispatch(collective);
  if (status.ok()) status = FinishFrames();
  if (absl::Status ended = membership_->End(); !ended.ok()) return ended;
  return status;
}

absl::Status MessageCollectives::Dispatch(Collective* collective) {
  const int64_t bytes = collective->buffer.bytes();
  switch (collective->kind) {
    case Collective::Kind::kBarrier:
      return ExchangeSmall(*collective);
    case Collective::Kind::kAllReduce:
      return bytes <= kInline && bytes * (size_ - 1) <= kDirectTotal ? ExchangeSmall(*collective)
                                                                     : ReduceRing(*collective);
    case Collective::Kind::kBroadcast:
      return bytes <= kInline ? BroadcastSmall(*collective) : BroadcastChain(*collective);
    case Collective::Kind::kAllGather:
      return GatherAll(collective);
  }
  return absl::InternalError("an unknown kind of collective");
}

// All send to all, and each adds up what it got, in order of rank.
absl::Status MessageCollectives::ExchangeSmall(const Collective& collective) {
  const Buffer& buffer = collective.buffer;
  const auto bytes = static_cast<uint64_t>(buffer.bytes());
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    if (absl::Status status = SendFrame(peer, buffer.data, bytes, true); !status.ok()) return status;
  }
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    if (const absl::StatusOr<uint64_t> got = ReceiveFrame(peer); !got.ok()) return got.status();
  }
  if (bytes > 0) {
    std::memcpy(scratch_.data(), FrameData(0), bytes);
    for (int peer = 1; peer < size_; ++peer) {
      ReduceInto(collective.op, buffer.type, scratch_.data(), FrameData(peer), buffer.count);
    }
    std::memcpy(buffer.data, scratch_.data(), bytes);
  }
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_) PostFrame(peer);
  }
  return absl::OkStatus();
}

absl::Status MessageCollectives::GatherAll(Collective* collective) {
  std::string& mine = collective->value;
  const bool small = mine.size() <= kInline;
  const auto own = small ? nullptr : transport_->Map(mine.data(), mine.size());
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    if (absl::Status status = SendFrame(peer, mine.data(), mine.size(), small); !status.ok()) return status;
    if (small) continue;
    if (absl::Status status = Send(own.get(), peer, DataSlot(0), 0, mine.size()); !status.ok()) return status;
  }
  std::vector<std::string> values(size_);
  std::vector<std::unique_ptr<Transport::Region>> coming(size_);
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    const absl::StatusOr<uint64_t> bytes = ReceiveFrame(peer);
    if (!bytes.ok()) return bytes.status();
    if (*bytes <= kInline) {
      values[peer].assign(FrameData(peer), *bytes);
    } else {
      values[peer].resize(*bytes);
      coming[peer] = transport_->Map(values[peer].data(), *bytes);
      absl::Status status = Receive(coming[peer].get(), peer, DataSlot(0), 0, *bytes);
      if (!status.ok()) return status;
    }
    PostFrame(peer);
  }
  for (int peer = 0; peer < size_; ++peer) {
    if (coming[peer] == nullptr) continue;
    if (absl::Status status = Await(coming[peer].get(), peer, Direction::kReceive, values[peer].size());
        !status.ok())
      return status;
  }
  for (int peer = 0; !small && peer < size_; ++peer) {
    if (peer == rank_) continue;
    if (absl::Status status = Await(own.get(), peer, Direction::kSend, mine.size()); !status.ok())
      return status;
  }
  coming.clear();
  values[rank_] = mine;
  *collective->values = std::move(values);
  return absl::OkStatus();
}

absl::Status MessageCollectives::BroadcastSmall(const Collective& collective) {
  const auto bytes = static_cast<uint64_t>(collective.buffer.bytes());
  if (rank_ != collective.root) {
    const absl::StatusOr<uint64_t> got = ReceiveFrame(collective.root);
    if (!got.ok()) return got.status();
    if (bytes > 0) std::memcpy(collective.buffer.data, FrameData(collective.root), bytes);
    PostFrame(collective.root);
    return absl::OkStatus();
  }
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    absl::Status status = SendFrame(peer, collective.buffer.data, bytes, true);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// From each member to the next, piece by piece, so that all connections are busy at once.
absl::Status MessageCollectives::BroadcastChain(const Collective& collective) {
  const Buffer& buffer = collective.buffer;
  const int previous = (rank_ + size_ - 1) % size_;
  const int next = (rank_ + 1) % size_;
  const bool receives = rank_ != collective.root;
  const bool sends = next != collective.root;
  const int64_t pieces = (buffer.bytes() + kPiece - 1) / kPiece;
  const auto region = transport_->Map(buffer.data, buffer.bytes());
  const auto piece = [&](int64_t index) { return Part(0, buffer.bytes(), index, pieces); };
  if (receives) {
    if (const absl::StatusOr<uint64_t> got = ReceiveFrame(previous); !got.ok()) return got.status();
    PostFrame(previous);
  }
  if (sends) {
    if (absl::Status status = SendFrame(next, nullptr, buffer.bytes(), false); !status.ok()) return status;
  }
  int64_t asked = 0;
  for (int64_t index = 0; index < pieces; ++index) {
    for (; receives && asked < std::min(pieces, index + kWindow); ++asked) {
      const Range range = piece(asked);
      absl::Status status = Receive(region.get(), previous, DataSlot(asked), range.begin, range.bytes);
      if (!status.ok()) return status;
    }
    if (receives) {
      Step(previous, static_cast<int>(index + 1), static_cast<int>(pieces));
      if (absl::Status status = Await(region.get(), previous, Direction::kReceive); !status.ok())
        return status;
    }
    const Range range = piece(index);
    if (!sends) continue;
    absl::Status status = Send(region.get(), next, DataSlot(index), range.begin, range.bytes);
    if (!status.ok()) return status;
  }
  for (int64_t index = 0; sends && index < pieces; ++index) {
    Step(next, static_cast<int>(index + 1), static_cast<int>(pieces));
    if (absl::Status status = Await(region.get(), next, Direction::kSend); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status MessageCollectives::ReduceRing(const Collective& collective) {
  const Buffer& buffer = collective.buffer;
  const int left = (rank_ + size_ - 1) % size_;
  const int right = (rank_ + 1) % size_;
  const Ring ring(rank_, size_, buffer);
  const int64_t element = ElementSize(buffer.type);
  const auto region = transport_->Map(buffer.data, buffer.bytes());
  if (absl::Status status = SendFrame(right, nullptr, buffer.bytes(), false); !status.ok()) return status;
  if (const absl::StatusOr<uint64_t> got = ReceiveFrame(left); !got.ok()) return got.status();
  PostFrame(left);

  int64_t asked = 0;
  int64_t sent = 0;
  int64_t to_confirm = 0;
  for (int64_t index = 0; index < ring.total(); ++index) {
    for (; asked < std::min(ring.total(), index + kWindow); ++asked) {
      const Range range = ring.Received(asked);
      if (range.bytes == 0) continue;
      absl::Status status =
          ring.adds(asked)
              ? Receive(scratch_region_.get(), left, DataSlot(asked), asked % kWindow * kPiece, range.bytes)
              : Receive(region.get(), left, DataSlot(asked), range.begin, range.bytes);
      if (!status.ok()) return status;
    }
    for (; sent < std::min({ring.total(), index + ring.pieces_per_step(), index + kWindow}); ++sent) {
      const Range range = ring.Sent(sent);
      if (range.bytes == 0) continue;
      ++to_confirm;
      absl::Status status = Send(region.get(), right, DataSlot(sent), range.begin, range.bytes);
      if (!status.ok()) return status;
    }
    const Range range = ring.Received(index);
    if (range.bytes == 0) continue;
    Step(left, ring.Step(index) + 1, 2 * (size_ - 1));
    Transport::Region* from = ring.adds(index) ? scratch_region_.get() : region.get();
    if (absl::Status status = Await(from, left, Direction::kReceive); !status.ok()) return status;
    if (!ring.adds(index)) continue;
    ReduceInto(collective.op, buffer.type, static_cast<char*>(buffer.data) + range.begin,
               &scratch_[index % kWindow * kPiece], range.bytes / element);
  }
  for (; to_confirm > 0; --to_confirm) {
    if (absl::Status status = Await(region.get(), right, Direction::kSend); !status.ok()) return status;
  }
  return absl::OkStatus();
}

// A peer that has left after its part in the collective that is being run may be out of reach already. Only
// the next collective needs it.
void MessageCollectives::PostFrame(int peer) {
  posted_[peer] =
      incoming_[peer]->Receive(peer, kFrameSlot, 0, sizeof(Header) + kInline) == Transport::Result::kDone;
}

// All frames of one collective hold the same.
absl::Status MessageCollectives::SendFrame(int peer, const void* data, uint64_t bytes, bool with_data) {
  char* frame = &frames_[(sizeof(Header) + kInline) * rank_];
  const Header header{number_, signature_, bytes};
  std::memcpy(frame, &header, sizeof(header));
  const size_t carried = with_data ? bytes : 0;
  if (carried > 0) std::memcpy(frame + sizeof(header), data, carried);
  sending_[peer] = true;
  return Send(outgoing_[peer].get(), peer, kFrameSlot, 0, sizeof(header) + carried);
}

// Returns how much data `peer` has for this collective.
absl::StatusOr<uint64_t> MessageCollectives::ReceiveFrame(int peer) {
  Step(peer, 0, 0);
  if (!posted_[peer]) return membership_->Broken(peer, incoming_[peer]->error());
  if (absl::Status status = Await(incoming_[peer].get(), peer, Direction::kReceive); !status.ok())
    return status;
  Header header;
  std::memcpy(&header, FrameData(peer) - sizeof(header), sizeof(header));
  if (header.number != number_ || header.signature != signature_) {
    return membership_->Mismatch(peer, header.number, header.signature);
  }
  return header.bytes;
}

// The frame may only be written again when it has been sent.
absl::Status MessageCollectives::FinishFrames() {
  for (int peer = 0; peer < size_; ++peer) {
    if (!sending_[peer]) continue;
    if (absl::Status status = Await(outgoing_[peer].get(), peer, Direction::kSend); !status.ok())
      return status;
    sending_[peer] = false;
  }
  return absl::OkStatus();
}

const char* MessageCollectives::FrameData(int peer) const {
  return &frames_[(sizeof(Header) + kInline) * peer + sizeof(Header)];
}

absl::Status MessageCollectives::Send(Transport::Region* region, int peer, uint64_t slot, size_t offset,
                                      size_t bytes) {
  if (region->Send(peer, slot, offset, bytes) == Transport::Result::kDone) return absl::OkStatus();
  return membership_->Broken(peer, region->error());
}

absl::Status MessageCollectives::Receive(Transport::Region* region, int peer, uint64_t slot, size_t offset,
                                         size_t bytes) {
  if (region->Receive(peer, slot, offset, bytes) == Transport::Result::kDone) return absl::OkStatus();
  return membership_->Broken(peer, region->error());
}

absl::Status MessageCollectives::Await(Transport::Region* region, int peer, Direction direction,
                                       uint64_t bytes) {
  membership_->SetPeer(peer, bytes > static_cast<uint64_t>(kPiece));
  {
    MutexLock lock(&mutex_);
    waiting_ = region;
    if (aborted_) region->Abort();
  }
  const Transport::Result result = direction == Direction::kSend ? region->WaitSend() : region->WaitReceive();
  {
    MutexLock lock(&mutex_);
    waiting_ = nullptr;
  }
  if (result == Transport::Result::kDone) return absl::OkStatus();
  if (result == Transport::Result::kBroken) return membership_->Broken(peer, region->error());
  return membership_->status();
}

void MessageCollectives::Step(int peer, int step, int steps) { membership_->SetStep(peer, step, steps); }

uint64_t MessageCollectives::DataSlot(int64_t piece) const {
  return kDataSlots | (number_ << 20 & ~kDataSlots) | (static_cast<uint64_t>(piece) & 0xFFFFF);
}

}  // namespace adaptdl::comm
