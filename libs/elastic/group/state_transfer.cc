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
#include "libs/elastic/group/piece_transfer.h"
#include "nlohmann/json.hpp"

namespace adaptdl::elastic {
namespace {

// Of all states together; more than any machine has, and far from the limits of the arithmetic.
constexpr int64_t kMostBytes = int64_t{1} << 50;

// What goes ahead of a state's pieces.
struct Description {
  std::string name;
  // Whether there is a head, of which the receiver can tell where the pieces belong.
  bool has_head = false;
  int64_t head_bytes = 0;
  Pieces pieces;
};

std::string Describe(const comm::Communicator& communicator, const std::vector<OutgoingState>& states) {
  nlohmann::json list = nlohmann::json::array();
  for (const OutgoingState& state : states) {
    if (state.reader == nullptr) {
      list.push_back({state.name, -1, {state.bytes.size()}});
      continue;
    }
    const Pieces pieces = PiecesOf(communicator, *state.reader);
    list.push_back({state.name, state.reader->head().size(), pieces.sizes});
    if (!pieces.on_device.empty()) list.back().push_back(pieces.on_device);
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
    description.pieces.sizes = entry.at(2).get<std::vector<int64_t>>();
    if (entry.size() > 3) description.pieces.on_device = entry.at(3).get<std::vector<bool>>();
    const size_t flags = description.pieces.on_device.size();
    if (flags != 0 && flags != description.pieces.sizes.size()) {
      throw std::invalid_argument("not every piece says where it is");
    }
    if (!names.insert(description.name).second) throw std::invalid_argument("a name comes twice");
    count(description.head_bytes);
    for (const int64_t bytes : description.pieces.sizes) count(bytes);
    descriptions.push_back(std::move(description));
  }
  return descriptions;
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
                          const std::string& head, StateReceiver& receiver) {
  if (description.has_head) {
    const absl::StatusOr<StateWriter*> writer = receiver.Open(description.name, head);
    if (!writer.ok()) return writer.status();
    if (*writer != nullptr && (*writer)->sizes() != description.pieces.sizes) {
      return absl::InvalidArgumentError(
          absl::StrCat("the state \"", description.name, "\" has other sizes than it says"));
    }
    if (*writer != nullptr) return ReceivePieces(communicator, source, description.pieces, **writer);
  }
  BytesWriter bytes(head, description.pieces.sizes);
  absl::Status status = ReceivePieces(communicator, source, description.pieces, bytes);
  if (status.ok()) receiver.Receive(description.name, bytes.TakeBytes());
  return status;
}

absl::Status ReceiveDescribed(comm::Communicator& communicator, int source,
                              const std::vector<Description>& descriptions, absl::string_view heads,
                              StateReceiver* receiver) {
  for (const Description& description : descriptions) {
    const auto head_bytes = static_cast<size_t>(description.head_bytes);
    if (head_bytes > heads.size()) return absl::InternalError("the heads of the states are too short");
    const std::string head(heads.substr(0, head_bytes));
    heads.remove_prefix(head_bytes);
    absl::Status status = receiver == nullptr
                              ? PassPieces(communicator, source, description.pieces)
                              : ReceiveState(communicator, source, description, head, *receiver);
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
  std::string descriptions = Describe(communicator, states);
  std::string heads;
  for (const OutgoingState& state : states) {
    if (state.reader != nullptr) heads += state.reader->head();
  }
  if (absl::Status status = communicator.BroadcastString(&descriptions, source); !status.ok()) return status;
  if (absl::Status status = communicator.BroadcastString(&heads, source); !status.ok()) return status;
  for (const OutgoingState& state : states) {
    BytesReader bytes(state.bytes);
    StateReader& reader = state.reader != nullptr ? *state.reader : bytes;
    const Pieces pieces = PiecesOf(communicator, reader);
    if (absl::Status status = SendPieces(communicator, pieces, reader); !status.ok()) return status;
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
