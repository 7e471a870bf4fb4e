#include "libs/elastic/group/state_transfer.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/comm/in_process_communicator.h"
#include "libs/comm/staged_communicator.h"
#include "libs/device/guarded_device.h"
#include "tests/libs/device/device_memory.h"

namespace adaptdl::elastic {
namespace {

using ::testing::HasSubstr;

// A state of strings.
class Strings final : public StateReader, public StateWriter {
 public:
  Strings(std::string head, std::vector<std::string> pieces)
      : head_(std::move(head)), pieces_(std::move(pieces)) {
    for (const std::string& piece : pieces_) sizes_.push_back(static_cast<int64_t>(piece.size()));
  }
  const std::string& head() const override { return head_; }
  const std::vector<int64_t>& sizes() const override { return sizes_; }
  const char* Read(size_t index) override { return pieces_[index].data(); }
  char* Open(size_t index) override { return pieces_[index].data(); }
  void Close(size_t index) override { closed_.push_back(index); }
  absl::Status Commit() override {
    committed_ = closed_.size() == pieces_.size();
    return absl::OkStatus();
  }

  const std::vector<std::string>& pieces() const { return pieces_; }
  bool committed() const { return committed_; }

 private:
  const std::string head_;
  std::vector<std::string> pieces_;
  std::vector<int64_t> sizes_;
  std::vector<size_t> closed_;
  bool committed_ = false;
};

class Receiver final : public StateReceiver {
 public:
  absl::StatusOr<StateWriter*> Open(const std::string& name, const std::string& head) override {
    heads[name] = head;
    const auto place = places.find(name);
    return place == places.end() ? nullptr : place->second;
  }
  void Receive(const std::string& name, std::string bytes) override { received[name] = std::move(bytes); }

  std::map<std::string, StateWriter*> places;
  std::map<std::string, std::string> heads;
  std::map<std::string, std::string> received;
};

// Runs `body` on every member of a group, and returns what it returned.
std::vector<absl::Status> RunMembers(std::vector<std::unique_ptr<comm::Communicator>>& members,
                                     const std::function<absl::Status(comm::Communicator&)>& body) {
  std::vector<absl::Status> results(members.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < members.size(); ++rank) {
    threads.emplace_back([&, rank] {
      results[rank] = body(*members[rank]);
      // Lets the others notice.
      if (!results[rank].ok()) members[rank]->Abort("the member has failed");
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

std::vector<absl::Status> RunGroup(int size, const std::function<absl::Status(comm::Communicator&)>& body) {
  auto members = comm::CreateInProcessGroup(size, absl::Seconds(30));
  return RunMembers(members, body);
}

std::string Pattern(size_t bytes, int seed) {
  std::string text(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(static_cast<size_t>(seed) + i * 7 + i / 251);
  return text;
}

// Small pieces, which travel together, large ones, one of several blocks, and empty ones.
std::vector<std::string> ManyPieces() {
  std::vector<std::string> pieces = {"", Pattern(100'000, 1), "a", "", "bc"};
  for (int i = 0; i < 100; ++i) pieces.push_back(Pattern(50'000, i));
  pieces.push_back(Pattern((size_t{33} << 20) + 5, 2));
  pieces.push_back("end");
  return pieces;
}

std::vector<std::string> Blank(const std::vector<std::string>& pieces) {
  std::vector<std::string> blank;
  for (const std::string& piece : pieces) blank.emplace_back(piece.size(), '?');
  return blank;
}

TEST(StateTransfer, StatesGoToTheirPlaces) {
  const std::vector<std::string> pieces = ManyPieces();
  constexpr int kSource = 2;
  const auto results = RunGroup(4, [&](comm::Communicator& communicator) -> absl::Status {
    if (communicator.rank() == kSource) {
      Strings large("head", pieces);
      Strings other("other head", {"x", "y"});
      return SendStates(communicator, {{"other", "", &other}, {"small", "bytes"}, {"large", "", &large}});
    }
    if (communicator.rank() == 1) return ReceiveStates(communicator, kSource, nullptr);
    Strings place("", Blank(pieces));
    Receiver receiver;
    receiver.places["large"] = &place;
    absl::Status status = ReceiveStates(communicator, kSource, &receiver);
    EXPECT_EQ(place.pieces(), pieces);
    EXPECT_TRUE(place.committed());
    EXPECT_EQ(receiver.heads["large"], "head");
    // Where there is no place yet, head and pieces come in one.
    EXPECT_EQ(receiver.received["other"], "other headxy");
    EXPECT_EQ(receiver.received["small"], "bytes");
    return status;
  });
  for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
}

TEST(StateTransfer, OnlyThoseThatWantGetStatesThatAreBytes) {
  const StateMap states = {{"a", Pattern(1 << 20, 1)}, {"b", ""}};
  const auto results = RunGroup(3, [&](comm::Communicator& communicator) {
    StateMap mine = communicator.rank() == 0 ? states : StateMap{{"old", "1"}};
    absl::Status status = BroadcastStates(communicator, 0, communicator.rank() == 1, &mine);
    EXPECT_EQ(mine, communicator.rank() == 2 ? StateMap({{"old", "1"}}) : states);
    return status;
  });
  for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
}

TEST(StateTransfer, APlaceOfOtherSizesIsRefused) {
  const auto results = RunGroup(2, [&](comm::Communicator& communicator) -> absl::Status {
    Strings state("head", {communicator.rank() == 0 ? "long" : "short"});
    if (communicator.rank() == 0) return SendStates(communicator, {{"s", "", &state}});
    Receiver receiver;
    receiver.places["s"] = &state;
    absl::Status status = ReceiveStates(communicator, 0, &receiver);
    EXPECT_FALSE(state.committed());
    return status;
  });
  EXPECT_EQ(results[1].code(), absl::StatusCode::kInvalidArgument);
}

// A state whose pieces lie on a device, all but every third one.
class DeviceStrings final : public StateReader, public StateWriter {
 public:
  DeviceStrings(device::Device& device, std::string head, const std::vector<std::string>& pieces)
      : device_(device), head_(std::move(head)), host_(pieces) {
    for (const std::string& piece : pieces) {
      sizes_.push_back(static_cast<int64_t>(piece.size()));
      memory_.push_back(device.Allocate(std::max<int64_t>(1, sizes_.back())).value());
      if (IsOnDevice(memory_.size() - 1)) Write(memory_.back(), piece);
    }
  }
  const std::string& head() const override { return head_; }
  const std::vector<int64_t>& sizes() const override { return sizes_; }
  const char* Read(size_t index) override {
    if (IsOnDevice(index)) host_[index] = FromDevice(index);
    return host_[index].data();
  }
  std::optional<DevicePiece> OnDevice(size_t index) override {
    if (!IsOnDevice(index)) return std::nullopt;
    return DevicePiece{memory_[index].data(), &device_, nullptr};
  }
  char* Open(size_t index) override { return host_[index].data(); }
  std::optional<DevicePiece> OpenOnDevice(size_t index) override { return OnDevice(index); }
  void Close(size_t /*index*/) override {}
  absl::Status Commit() override { return absl::OkStatus(); }

  std::vector<std::string> Contents() {
    std::vector<std::string> contents;
    for (size_t i = 0; i < sizes_.size(); ++i) contents.push_back(IsOnDevice(i) ? FromDevice(i) : host_[i]);
    return contents;
  }

 private:
  static bool IsOnDevice(size_t index) { return index % 3 != 2; }

  void Write(const device::Memory& to, const std::string& text) {
    const device::Memory host = device_.AllocateHost(std::max<int64_t>(1, text.size())).value();
    std::copy(text.begin(), text.end(), host.at(0));
    device_.Copy(to.data(), host.data(), static_cast<int64_t>(text.size()), nullptr).IgnoreError();
    device::Synchronize(device_);
  }
  std::string FromDevice(size_t index) {
    const device::Memory host = device_.AllocateHost(std::max<int64_t>(1, sizes_[index])).value();
    device_.Copy(host.data(), memory_[index].data(), sizes_[index], nullptr).IgnoreError();
    device::Synchronize(device_);
    return {host.at(0), host.at(sizes_[index])};
  }

  device::Device& device_;
  const std::string head_;
  std::vector<std::string> host_;
  std::vector<int64_t> sizes_;
  std::vector<device::Memory> memory_;
};

// As RunGroup(), of members with a guarded device each.
std::vector<absl::Status> RunGroupOnDevices(
    int size, const std::function<absl::Status(comm::Communicator&, device::Device&)>& body) {
  std::vector<device::GuardedDevice> devices(static_cast<size_t>(size));
  auto members = comm::CreateInProcessGroup(size, absl::Seconds(30));
  for (size_t rank = 0; rank < members.size(); ++rank) {
    members[rank] = comm::CreateStagedCommunicator(std::move(members[rank]), &devices[rank]).value();
  }
  std::vector<absl::Status> results = RunMembers(members, [&](comm::Communicator& communicator) {
    return body(communicator, devices[static_cast<size_t>(communicator.rank())]);
  });
  members.clear();
  return results;
}

TEST(StateTransfer, WhatLiesOnDevicesGoesFromDeviceToDevice) {
  const std::vector<std::string> pieces = ManyPieces();
  constexpr int kSource = 1;
  const auto results = RunGroupOnDevices(4, [&](comm::Communicator& communicator, device::Device& device) {
    if (communicator.rank() == kSource) {
      DeviceStrings state(device, "head", pieces);
      DeviceStrings other(device, "other head", {"x", "y", "z"});
      return SendStates(communicator, {{"other", "", &other}, {"small", "bytes"}, {"large", "", &state}});
    }
    if (communicator.rank() == 3) return ReceiveStates(communicator, kSource, nullptr);
    Receiver receiver;
    // One has its place on the device as well, the other in main memory.
    DeviceStrings on_device(device, "", Blank(pieces));
    Strings on_host("", Blank(pieces));
    receiver.places["large"] = communicator.rank() == 0 ? static_cast<StateWriter*>(&on_device) : &on_host;
    absl::Status status = ReceiveStates(communicator, kSource, &receiver);
    EXPECT_EQ(communicator.rank() == 0 ? on_device.Contents() : on_host.pieces(), pieces);
    EXPECT_EQ(receiver.received["other"], "other headxyz");
    EXPECT_EQ(receiver.received["small"], "bytes");
    return status;
  });
  for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
}

TEST(StateTransfer, HostileDescriptionsAreRefused) {
  for (const std::string description :
       {"", "{", "7", R"([["a"]])", R"([["a", -1, "x"]])", R"([["a", -1, [-5]]])", R"([[3, -1, [5]]])",
        R"([["a", 9, []]])", R"([["a", -1, []], ["a", -1, []]])", R"([["a", -1, [9223372036854775807]]])",
        R"([["a", 0, [1, 2], [true]]])", R"([["a", 0, [1, 2], [1, 0]]])",
        R"([["a", -1, [562949953421312]], ["b", -1, [562949953421312]], ["c", -1, [1]]])"}) {
    const auto results = RunGroup(2, [&](comm::Communicator& communicator) -> absl::Status {
      std::string text = description;
      std::string heads;
      if (communicator.rank() == 0) {
        if (absl::Status status = communicator.BroadcastString(&text, 0); !status.ok()) return status;
        return communicator.BroadcastString(&heads, 0);
      }
      Receiver receiver;
      return ReceiveStates(communicator, 0, &receiver);
    });
    EXPECT_EQ(results[1].code(), absl::StatusCode::kInternal) << description;
  }
}

}  // namespace
}  // namespace adaptdl::elastic
