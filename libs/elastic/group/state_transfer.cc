#include "libs/elastic/group/state_transfer.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/elastic/checkpoint/streaming_copy.h"
#include "nlohmann/json.hpp"

namespace adaptdl::elastic {
namespace {

// Of one collective. Those who do not want the states need no more memory than this.
constexpr int64_t kBlockBytes = int64_t{32} << 20;
// Pieces below this size travel with their neighbours, so many in one go: a collective takes longer.
constexpr int64_t kSmallPiece = 64 << 10;
constexpr int64_t kBundleBytes = int64_t{4} << 20;
// Of all states together; more than any machine has, and far from the limits of the arithmetic.
constexpr int64_t kMostBytes = int64_t{1} << 50;

// What goes ahead of a state's pieces.
struct Description {
  std::string name;
  // Whether there is a head, of which the receiver can tell where the pieces belong.
  bool has_head = false;
  int64_t head_bytes = 0;
  std::vector<int64_t> sizes;
};

std::string Describe(const std::vector<OutgoingState>& states) {
  nlohmann::json list = nlohmann::json::array();
  for (const OutgoingState& state : states) {
    if (state.reader != nullptr) {
      list.push_back({state.name, state.reader->head().size(), state.reader->sizes()});
    } else {
      list.push_back({state.name, -1, {state.bytes.size()}});
    }
  }
  return list.dump();
}

// Throws on what is no description.
std::vector<Description> ParseDescriptions(const std::string& text) {
  std::vector<Description> descriptions;
  std::set<std::string> names;
  int64_t total = 0;
  const auto count = [&](int64_t bytes) {
    if (bytes < 0 || bytes > kMostBytes - total) throw std::invalid_argument("a size is out of range");
    total += bytes;
  };
  for (const nlohmann::json& entry : nlohmann::json::parse(text)) {
    Description description;
    description.name = entry.at(0).get<std::string>();
    description.has_head = entry.at(1).get<int64_t>() >= 0;
    if (description.has_head) description.head_bytes = entry.at(1).get<int64_t>();
    description.sizes = entry.at(2).get<std::vector<int64_t>>();
    if (!names.insert(description.name).second) throw std::invalid_argument("a name comes twice");
    count(description.head_bytes);
    for (const int64_t bytes : description.sizes) count(bytes);
    descriptions.push_back(std::move(description));
  }
  return descriptions;
}

absl::Status BroadcastBytes(comm::Communicator& communicator, int source, char* bytes, int64_t size) {
  for (int64_t begin = 0; begin < size; begin += kBlockBytes) {
    const comm::Buffer block{bytes + begin, std::min(kBlockBytes, size - begin), comm::DataType::kUint8};
    if (absl::Status status = communicator.Broadcast(block, source); !status.ok()) return status;
  }
  return absl::OkStatus();
}

// Consecutive pieces that travel in one go; all members come to the same ones.
struct Bundle {
  size_t begin = 0;
  size_t end = 0;
  int64_t bytes = 0;

  bool single() const { return end - begin == 1; }
};

std::vector<Bundle> BundlesOf(const std::vector<int64_t>& sizes) {
  std::vector<Bundle> bundles;
  bool open = false;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const bool small = sizes[i] < kSmallPiece;
    if (!small || !open || bundles.back().bytes + sizes[i] > kBundleBytes) bundles.push_back({i, i, 0});
    bundles.back().end = i + 1;
    bundles.back().bytes += sizes[i];
    open = small;
  }
  return bundles;
}

absl::Status SendPieces(comm::Communicator& communicator, StateReader& reader, std::string* staging) {
  for (const Bundle& bundle : BundlesOf(reader.sizes())) {
    if (bundle.single()) {
      // Only read: this member is the source.
      char* const piece = const_cast<char*>(reader.Read(bundle.begin));
      absl::Status status = BroadcastBytes(communicator, communicator.rank(), piece, bundle.bytes);
      if (!status.ok()) return status;
      continue;
    }
    staging->clear();
    for (size_t i = bundle.begin; i < bundle.end; ++i) {
      staging->append(reader.Read(i), static_cast<size_t>(reader.sizes()[i]));
    }
    absl::Status status = BroadcastBytes(communicator, communicator.rank(), staging->data(), bundle.bytes);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status ReceivePieces(comm::Communicator& communicator, int source, StateWriter& writer,
                           std::string* staging) {
  for (const Bundle& bundle : BundlesOf(writer.sizes())) {
    if (bundle.single()) {
      absl::Status status = BroadcastBytes(communicator, source, writer.Open(bundle.begin), bundle.bytes);
      if (!status.ok()) return status;
      writer.Close(bundle.begin);
      continue;
    }
    staging->resize(static_cast<size_t>(bundle.bytes));
    absl::Status status = BroadcastBytes(communicator, source, staging->data(), bundle.bytes);
    if (!status.ok()) return status;
    const char* from = staging->data();
    for (size_t i = bundle.begin; i < bundle.end; ++i) {
      const auto bytes = static_cast<size_t>(writer.sizes()[i]);
      if (bytes > 0) std::memcpy(writer.Open(i), from, bytes);
      writer.Close(i);
      from += bytes;
    }
  }
  return writer.Commit();
}

absl::Status PassPieces(comm::Communicator& communicator, int source, const std::vector<int64_t>& sizes,
                        std::string* staging) {
  for (const Bundle& bundle : BundlesOf(sizes)) {
    for (int64_t begin = 0; begin < bundle.bytes; begin += kBlockBytes) {
      const int64_t count = std::min(kBlockBytes, bundle.bytes - begin);
      staging->resize(static_cast<size_t>(count));
      absl::Status status = BroadcastBytes(communicator, source, staging->data(), count);
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

// A state that is bytes, or one whose pieces have no place yet. Throws where there is no memory.
class BytesWriter final : public StateWriter {
 public:
  BytesWriter(std::string head, std::vector<int64_t> sizes)
      : sizes_(std::move(sizes)), bytes_(std::move(head)) {
    size_t at = bytes_.size();
    for (const int64_t size : sizes_) {
      begins_.push_back(at);
      at += static_cast<size_t>(size);
    }
    bytes_.reserve(at);
    PreferHugePages(bytes_.data() + bytes_.size(), bytes_.capacity() - bytes_.size());
  }

  const std::vector<int64_t>& sizes() const override { return sizes_; }
  char* Open(size_t index) override {
    bytes_.resize(begins_[index] + static_cast<size_t>(sizes_[index]));
    return bytes_.data() + begins_[index];
  }
  void Close(size_t /*index*/) override {}
  absl::Status Commit() override { return absl::OkStatus(); }

  std::string TakeBytes() { return std::move(bytes_); }

 private:
  const std::vector<int64_t> sizes_;
  std::vector<size_t> begins_;
  std::string bytes_;
};

class BytesReader final : public StateReader {
 public:
  explicit BytesReader(absl::string_view bytes)
      : bytes_(bytes), sizes_({static_cast<int64_t>(bytes.size())}) {}
  const std::string& head() const override { return head_; }
  const std::vector<int64_t>& sizes() const override { return sizes_; }
  const char* Read(size_t /*index*/) override { return bytes_.data(); }

 private:
  const std::string head_;
  const absl::string_view bytes_;
  const std::vector<int64_t> sizes_;
};

absl::Status ReceiveState(comm::Communicator& communicator, int source, const Description& description,
                          const std::string& head, StateReceiver& receiver, std::string* staging) {
  if (description.has_head) {
    const absl::StatusOr<StateWriter*> writer = receiver.Open(description.name, head);
    if (!writer.ok()) return writer.status();
    if (*writer != nullptr && (*writer)->sizes() != description.sizes) {
      return absl::InvalidArgumentError(
          absl::StrCat("the state \"", description.name, "\" has other sizes than it says"));
    }
    if (*writer != nullptr) return ReceivePieces(communicator, source, **writer, staging);
  }
  BytesWriter bytes(head, description.sizes);
  absl::Status status = ReceivePieces(communicator, source, bytes, staging);
  if (status.ok()) receiver.Receive(description.name, bytes.TakeBytes());
  return status;
}

absl::Status ReceiveDescribed(comm::Communicator& communicator, int source,
                              const std::vector<Description>& descriptions, absl::string_view heads,
                              StateReceiver* receiver) {
  std::string staging;
  for (const Description& description : descriptions) {
    const auto head_bytes = static_cast<size_t>(description.head_bytes);
    if (head_bytes > heads.size()) return absl::InternalError("the heads of the states are too short");
    const std::string head(heads.substr(0, head_bytes));
    heads.remove_prefix(head_bytes);
    absl::Status status = receiver == nullptr
                              ? PassPieces(communicator, source, description.sizes, &staging)
                              : ReceiveState(communicator, source, description, head, *receiver, &staging);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

class IntoMap final : public StateReceiver {
 public:
  explicit IntoMap(StateMap* states) : states_(states) {}
  absl::StatusOr<StateWriter*> Open(const std::string&, const std::string&) override { return nullptr; }
  void Receive(const std::string& name, std::string bytes) override { (*states_)[name] = std::move(bytes); }

 private:
  StateMap* const states_;
};

}  // namespace

absl::Status SendStates(comm::Communicator& communicator, const std::vector<OutgoingState>& states) {
  const int source = communicator.rank();
  std::string descriptions = Describe(states);
  std::string heads;
  for (const OutgoingState& state : states) {
    if (state.reader != nullptr) heads += state.reader->head();
  }
  if (absl::Status status = communicator.BroadcastString(&descriptions, source); !status.ok()) return status;
  if (absl::Status status = communicator.BroadcastString(&heads, source); !status.ok()) return status;
  std::string staging;
  for (const OutgoingState& state : states) {
    BytesReader bytes(state.bytes);
    StateReader& reader = state.reader != nullptr ? *state.reader : bytes;
    if (absl::Status status = SendPieces(communicator, reader, &staging); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status ReceiveStates(comm::Communicator& communicator, int source, StateReceiver* receiver) {
  std::string descriptions;
  std::string heads;
  if (absl::Status status = communicator.BroadcastString(&descriptions, source); !status.ok()) return status;
  if (absl::Status status = communicator.BroadcastString(&heads, source); !status.ok()) return status;
  try {
    return ReceiveDescribed(communicator, source, ParseDescriptions(descriptions), heads, receiver);
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("the states of another replica cannot be taken: ", error.what()));
  }
}

absl::Status BroadcastStates(comm::Communicator& communicator, int source, bool wanted, StateMap* states) {
  if (communicator.rank() == source) {
    std::vector<OutgoingState> outgoing;
    for (const auto& [name, bytes] : *states) outgoing.push_back({name, bytes});
    return SendStates(communicator, outgoing);
  }
  StateMap received;
  IntoMap receiver(&received);
  absl::Status status = ReceiveStates(communicator, source, wanted ? &receiver : nullptr);
  if (status.ok() && wanted) *states = std::move(received);
  return status;
}

}  // namespace adaptdl::elastic
