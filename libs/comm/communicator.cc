#include "libs/comm/communicator.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace adaptdl::comm {

int64_t ElementSize(DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return 4;
    case DataType::kFloat64:
    case DataType::kInt64:
      return 8;
    case DataType::kUint8:
      return 1;
  }
  return 0;
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

absl::Status Communicator::AllReduce(Buffer buffer) { return AllReduceAsync(buffer)->Wait(); }

absl::StatusOr<std::vector<std::string>> Communicator::AllGather(absl::string_view value) {
  std::vector<int64_t> sizes(size(), 0);
  sizes[rank()] = static_cast<int64_t>(value.size());
  if (absl::Status status = AllReduce(BufferOf(absl::MakeSpan(sizes))); !status.ok()) return status;
  int64_t total = 0;
  int64_t offset = 0;
  for (int member = 0; member < size(); ++member) {
    if (member == rank()) offset = total;
    total += sizes[member];
  }
  // Each member fills its own part of a zeroed buffer, so that the sum is the concatenation.
  std::vector<uint8_t> all(total, 0);
  if (!value.empty()) std::memcpy(all.data() + offset, value.data(), value.size());
  if (total > 0) {
    if (absl::Status status = AllReduce(BufferOf(absl::MakeSpan(all))); !status.ok()) return status;
  }
  std::vector<std::string> values;
  values.reserve(size());
  const char* next = reinterpret_cast<const char*>(all.data());
  for (int64_t bytes : sizes) {
    values.emplace_back(next, static_cast<size_t>(bytes));
    next += bytes;
  }
  return values;
}

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
