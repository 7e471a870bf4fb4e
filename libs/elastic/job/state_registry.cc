#include "libs/elastic/job/state_registry.h"

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "libs/base/say.h"
#include "libs/elastic/checkpoint/piecewise_state.h"
#include "libs/elastic/group/state_transfer.h"

namespace adaptdl::elastic {

// Where a newcomer puts the states of a replica that trains.
class StateRegistry::Receiver final : public StateReceiver {
 public:
  explicit Receiver(const std::vector<CheckpointState*>& expected) : expected_(expected) {}

  absl::StatusOr<StateWriter*> Open(const std::string& name, const std::string& head) override {
    for (CheckpointState* state : expected_) {
      if (state->name() != name || state->piecewise() == nullptr) continue;
      absl::StatusOr<std::unique_ptr<StateWriter>> writer = state->piecewise()->Write(head);
      if (!writer.ok()) return writer.status();
      writer_ = *std::move(writer);
      written_.insert(state);
      return writer_.get();
    }
    return nullptr;
  }

  void Receive(const std::string& name, std::string bytes) override { others_[name] = std::move(bytes); }

  const std::set<CheckpointState*>& written() const { return written_; }
  StateMap TakeOthers() { return std::move(others_); }

 private:
  const std::vector<CheckpointState*>& expected_;
  // Of the state that is coming in.
  std::unique_ptr<StateWriter> writer_;
  std::set<CheckpointState*> written_;
  StateMap others_;
};

void StateRegistry::ReserveMemory() {
  for (CheckpointState* state : expected_) {
    if (state->piecewise() != nullptr) state->piecewise()->Reserve();
  }
}

absl::StatusOr<bool> StateRegistry::Register(CheckpointState* state, bool says) {
  const std::string name = state->name();
  for (const CheckpointState* other : states_) {
    if (other->name() != name) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("two checkpoint states are named \"", name, "\"; give each a name of its own"));
  }
  states_.push_back(state);
  bool loaded = received_.erase(state) > 0;
  const auto saved = restored_.find(name);
  if (!loaded && saved != restored_.end()) {
    loaded = state->Load(saved->second);
    if (!loaded) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the state \"", name,
          "\" of the checkpoint cannot be loaded; was the program changed since it was written?"));
    }
    restored_.erase(saved);
  } else if (!loaded && says && restored()) {
    Say(Severity::kWarning, absl::StrCat("the checkpoint holds no state \"", name, "\": it starts anew"));
  }
  if (state->piecewise() != nullptr) state->piecewise()->Release();
  return loaded;
}

void StateRegistry::Unregister(CheckpointState* state) { std::erase(states_, state); }

void StateRegistry::Sync() {
  for (CheckpointState* state : states_) state->Sync();
}

void StateRegistry::Restore(StateMap states) {
  received_.clear();
  restored_ = std::move(states);
}

std::string StateRegistry::Restored(const std::string& name) const {
  const auto saved = restored_.find(name);
  return saved == restored_.end() ? "" : saved->second;
}

void StateRegistry::Collect(const StateMap& own, StateMap* states) {
  StateMap old = std::move(*states);
  const auto bytes_of = [&](const std::string& name) -> std::string& {
    if (auto node = old.extract(name)) states->insert(std::move(node));
    return (*states)[name];
  };
  states->clear();
  for (const auto& [name, bytes] : restored_) bytes_of(name) = bytes;
  for (const auto& [name, bytes] : own) bytes_of(name) = bytes;
  for (CheckpointState* state : states_) state->SaveInto(&bytes_of(state->name()));
}

absl::Status StateRegistry::Send(comm::Communicator& communicator, StateMap own) {
  std::vector<std::unique_ptr<StateReader>> readers;
  std::vector<OutgoingState> outgoing;
  for (CheckpointState* state : states_) {
    if (state->piecewise() != nullptr) {
      readers.push_back(state->piecewise()->Read());
      outgoing.push_back({state->name(), "", readers.back().get()});
    } else {
      state->SaveInto(&own[state->name()]);
    }
  }
  for (const auto& [name, bytes] : own) outgoing.push_back({name, bytes});
  // For those that register later, or never.
  for (const auto& [name, bytes] : restored_) {
    if (!own.contains(name)) outgoing.push_back({name, bytes});
  }
  return SendStates(communicator, outgoing);
}

absl::Status StateRegistry::Receive(comm::Communicator& communicator, int source) {
  Receiver receiver(expected_);
  absl::Status status = ReceiveStates(communicator, source, &receiver);
  has_others_state_ = has_others_state_ || status.ok() || !receiver.written().empty();
  if (!status.ok()) return status;
  received_ = receiver.written();
  restored_ = receiver.TakeOthers();
  return absl::OkStatus();
}

void StateRegistry::SaveStep(StateMap* states) {
  for (CheckpointState* state : states_) {
    if (state->changes_with_steps()) state->SaveInto(&(*states)[state->name()]);
  }
}

absl::Status StateRegistry::LoadStep(const StateMap& states) {
  for (CheckpointState* state : states_) {
    if (!state->changes_with_steps()) continue;
    const auto saved = states.find(state->name());
    if (saved == states.end() || !state->LoadStep(saved->second)) {
      return absl::InternalError(
          absl::StrCat("the state \"", state->name(), "\" of another replica cannot be taken over"));
    }
  }
  return absl::OkStatus();
}

}  // namespace adaptdl::elastic
