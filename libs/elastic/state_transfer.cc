#include "libs/elastic/state_transfer.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace adaptdl::elastic {
namespace {

// Those who do not want the states need no more memory than this.
constexpr int64_t kPieceBytes = int64_t{32} << 20;

// Names and sizes of all states.
std::string DescribeStates(const StateMap& states) {
  nlohmann::json sizes = nlohmann::json::array();
  for (const auto& [name, bytes] : states) sizes.push_back({name, bytes.size()});
  return sizes.dump();
}

absl::Status BroadcastBytes(comm::Communicator& communicator, int source, char* bytes, int64_t size) {
  for (int64_t begin = 0; begin < size; begin += kPieceBytes) {
    comm::Buffer piece;
    piece.data = bytes + begin;
    piece.count = std::min(kPieceBytes, size - begin);
    piece.type = comm::DataType::kUint8;
    if (absl::Status status = communicator.Broadcast(piece, source); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status PassOn(comm::Communicator& communicator, int source, int64_t size, std::string* piece) {
  for (int64_t begin = 0; begin < size; begin += kPieceBytes) {
    const int64_t count = std::min(kPieceBytes, size - begin);
    piece->resize(static_cast<size_t>(count));
    if (absl::Status status = BroadcastBytes(communicator, source, piece->data(), count); !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status BroadcastStates(comm::Communicator& communicator, int source, bool wanted, StateMap* states) {
  const bool is_source = communicator.rank() == source;
  std::string sizes = is_source ? DescribeStates(*states) : "";
  if (absl::Status status = communicator.BroadcastString(&sizes, source); !status.ok()) return status;
  const nlohmann::json parsed = nlohmann::json::parse(sizes, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_array()) return absl::InternalError("the list of states cannot be read");
  StateMap received;
  std::string piece;
  for (const auto& item : parsed) {
    const auto name = item.at(0).get<std::string>();
    const auto size = item.at(1).get<int64_t>();
    absl::Status status;
    if (is_source) {
      status = BroadcastBytes(communicator, source, states->at(name).data(), size);
    } else if (wanted) {
      std::string& bytes = received[name];
      bytes.resize(static_cast<size_t>(size));
      status = BroadcastBytes(communicator, source, bytes.data(), size);
    } else {
      status = PassOn(communicator, source, size, &piece);
    }
    if (!status.ok()) return status;
  }
  if (wanted && !is_source) *states = std::move(received);
  return absl::OkStatus();
}

}  // namespace adaptdl::elastic
