#include "libs/comm/communicator.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "libs/device/data_type.h"
#include "libs/device/half.h"

namespace adaptdl::comm {
namespace {

template <typename T>
void ReduceTyped(ReduceOp op, T* to, const T* from, int64_t count) {
  switch (op) {
    case ReduceOp::kSum:
      for (int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(to[i] + from[i]);
      return;
    case ReduceOp::kMax:
      for (int64_t i = 0; i < count; ++i) to[i] = std::max(to[i], from[i]);
      return;
    case ReduceOp::kOr:
      if constexpr (std::is_integral_v<T>) {
        for (int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(to[i] | from[i]);
      }
      return;
  }
}

// In float32, rounded after each addition.
template <typename Half, Half (*kRound)(float)>
void ReduceHalves(ReduceOp op, void* to, const void* from, int64_t count) {
  auto* const sums = static_cast<Half*>(to);
  const auto* const values = static_cast<const Half*>(from);
  for (int64_t i = 0; i < count; ++i) {
    const float left = device::ToFloat(sums[i]);
    const float right = device::ToFloat(values[i]);
    sums[i] = kRound(op == ReduceOp::kMax ? std::max(left, right) : left + right);
  }
}

class RefusedWork final : public Work {
 public:
  explicit RefusedWork(absl::Status status) : status_(std::move(status)) {}
  absl::Status Wait() override { return status_; }
  absl::Status Then(device::Stream /*stream*/) override { return status_; }

 private:
  const absl::Status status_;
};

Collective MakeAllReduce(Buffer buffer, ReduceOp op) {
  Collective collective;
  collective.kind = Collective::Kind::kAllReduce;
  collective.op = op;
  collective.buffer = buffer;
  return collective;
}

Collective MakeBroadcast(Buffer buffer, int root) {
  Collective collective;
  collective.kind = Collective::Kind::kBroadcast;
  collective.root = root;
  collective.buffer = buffer;
  return collective;
}

Collective MakeAllGather(std::string value, std::vector<std::string>* values) {
  Collective collective;
  collective.kind = Collective::Kind::kAllGather;
  collective.value = std::move(value);
  collective.values = values;
  return collective;
}

}  // namespace

void ReduceInto(ReduceOp op, DataType type, void* to, const void* from, int64_t count) {
  switch (type) {
    case DataType::kFloat32:
      return ReduceTyped(op, static_cast<float*>(to), static_cast<const float*>(from), count);
    case DataType::kFloat64:
      return ReduceTyped(op, static_cast<double*>(to), static_cast<const double*>(from), count);
    case DataType::kInt64:
      return ReduceTyped(op, static_cast<int64_t*>(to), static_cast<const int64_t*>(from), count);
    case DataType::kUint8:
      return ReduceTyped(op, static_cast<uint8_t*>(to), static_cast<const uint8_t*>(from), count);
    case DataType::kFloat16:
      return ReduceHalves<device::Float16, device::ToFloat16>(op, to, from, count);
    case DataType::kBFloat16:
      return ReduceHalves<device::BFloat16, device::ToBFloat16>(op, to, from, count);
  }
}

Buffer BufferOf(absl::Span<float> values) {
  return {values.data(), static_cast<int64_t>(values.size()), DataType::kFloat32};
}

Buffer BufferOf(absl::Span<double> values) {
  return {values.data(), static_cast<int64_t>(values.size()), DataType::kFloat64};
}

Buffer BufferOf(absl::Span<int64_t> values) {
  return {values.data(), static_cast<int64_t>(values.size()), DataType::kInt64};
}

Buffer BufferOf(absl::Span<uint8_t> values) {
  return {values.data(), static_cast<int64_t>(values.size()), DataType::kUint8};
}

absl::Status Work::Then(device::Stream /*stream*/) {
  return absl::FailedPreconditionError("a collective over main memory has no place on a stream: wait for it");
}

Reduction::Reduction(std::unique_ptr<std::vector<std::string>> values, std::unique_ptr<Work> work,
                     Combine combine)
    : values_(std::move(values)), work_(std::move(work)), combine_(std::move(combine)) {}

absl::StatusOr<std::string> Reduction::Wait() {
  if (absl::Status status = work_->Wait(); !status.ok()) return status;
  std::string result = std::move(values_->front());
  for (size_t rank = 1; rank < values_->size(); ++rank)
    result = combine_(std::move(result), (*values_)[rank]);
  return result;
}

absl::Status Communicator::Check(const Collective& collective) const {
  const Buffer& buffer = collective.buffer;
  if (buffer.count < 0) {
    return absl::InvalidArgumentError(absl::StrCat("a buffer of ", buffer.count, " elements"));
  }
  if (buffer.data == nullptr && buffer.count > 0) {
    return absl::InvalidArgumentError(absl::StrCat("a buffer of ", buffer.count, " elements without memory"));
  }
  if (buffer.device != nullptr && buffer.device != device()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a buffer on ", buffer.device->name(), ", and this group exchanges main memory",
                     device() == nullptr ? " only" : absl::StrCat(" and that of ", device()->name())));
  }
  if (collective.root < 0 || collective.root >= size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("root ", collective.root, " is no rank in a group of ", size()));
  }
  if (collective.op == ReduceOp::kOr && buffer.type != DataType::kInt64 && buffer.type != DataType::kUint8) {
    return absl::InvalidArgumentError("\"or\" is for integers: use kInt64 or kUint8");
  }
  return absl::OkStatus();
}

std::unique_ptr<Work> Communicator::StartOn(Communicator& other, Collective collective) {
  return other.Start(std::move(collective));
}

absl::Status Communicator::RunOn(Communicator& other, Collective collective) {
  return other.Run(std::move(collective));
}

std::unique_ptr<Work> Communicator::Refused(absl::Status status) {
  return std::make_unique<RefusedWork>(std::move(status));
}

std::unique_ptr<Work> Communicator::AllReduceAsync(Buffer buffer, ReduceOp op) {
  Collective collective = MakeAllReduce(buffer, op);
  if (absl::Status status = Check(collective); !status.ok()) return Refused(status);
  return Start(std::move(collective));
}

absl::Status Communicator::AllReduce(Buffer buffer, ReduceOp op) {
  Collective collective = MakeAllReduce(buffer, op);
  if (absl::Status status = Check(collective); !status.ok()) return status;
  return Run(std::move(collective));
}

std::unique_ptr<Work> Communicator::BroadcastAsync(Buffer buffer, int root) {
  Collective collective = MakeBroadcast(buffer, root);
  if (absl::Status status = Check(collective); !status.ok()) return Refused(status);
  return Start(std::move(collective));
}

absl::Status Communicator::Broadcast(Buffer buffer, int root) {
  Collective collective = MakeBroadcast(buffer, root);
  if (absl::Status status = Check(collective); !status.ok()) return status;
  return Run(std::move(collective));
}

std::unique_ptr<Work> Communicator::AllGatherAsync(std::string value, std::vector<std::string>* values) {
  return Start(MakeAllGather(std::move(value), values));
}

absl::StatusOr<std::vector<std::string>> Communicator::AllGather(absl::string_view value) {
  std::vector<std::string> values;
  if (absl::Status status = Run(MakeAllGather(std::string(value), &values)); !status.ok()) return status;
  return values;
}

std::unique_ptr<Reduction> Communicator::ReduceAsync(std::string value, Combine combine) {
  auto values = std::make_unique<std::vector<std::string>>();
  std::unique_ptr<Work> work = AllGatherAsync(std::move(value), values.get());
  return std::make_unique<Reduction>(std::move(values), std::move(work), std::move(combine));
}

absl::StatusOr<std::string> Communicator::Reduce(std::string value, Combine combine) {
  return ReduceAsync(std::move(value), std::move(combine))->Wait();
}

absl::Status Communicator::Barrier() { return Run(Collective()); }

absl::Status Communicator::BroadcastString(std::string* value, int root) {
  int64_t bytes = static_cast<int64_t>(value->size());
  if (absl::Status status = Broadcast(BufferOf(absl::Span<int64_t>(&bytes, 1)), root); !status.ok()) {
    return status;
  }
  value->resize(bytes);
  // In pieces, so that no single collective needs longer than the timeout.
  constexpr int64_t kPiece = int64_t{16} << 20;
  for (int64_t begin = 0; begin < bytes; begin += kPiece) {
    const int64_t count = std::min(kPiece, bytes - begin);
    Buffer piece{value->data() + begin, count, DataType::kUint8};
    if (absl::Status status = Broadcast(piece, root); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace adaptdl::comm
