// What a job is, as named states: restored from a checkpoint or from replicas that train, saved, and handed
// over.

#include <cstdio>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "libs/elastic/checkpoint/piecewise_state.h"
#include "libs/elastic/group/state_transfer.h"
#include "libs/elastic/job/job_core.h"
#include "nlohmann/json.hpp"

namespace adaptdl::elastic {
namespace {

constexpr char kJobState[] = "adaptdl-job";
constexpr char kReplayState[] = "adaptdl-replay";
constexpr char kProfileState[] = "adaptdl-profile";
// Travels between replicas only.
constexpr char kStepState[] = "adaptdl-step";

}  // namespace

// Where a newcomer puts the states of a replica that trains.
class JobCore::Receiver final : public StateReceiver {
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

void JobCore::ReserveMemory() {
  for (CheckpointState* state : dependencies_.expected) {
    if (state->piecewise() != nullptr) state->piecewise()->Reserve();
  }
}

absl::Status JobCore::Restore() {
  StateMap states;
  if (leads_ && writer_) {
    absl::StatusOr<Checkpoint> newest = writer_->LoadNewest();
    if (newest.ok()) {
      std::fprintf(stderr, "adaptdl: restored checkpoint-%lld\n", static_cast<long long>(newest->version));
      states = std::move(newest->states);
    } else if (newest.status().code() != absl::StatusCode::kNotFound) {
      return newest.status();
    }
  }
  if (absl::Status status = BroadcastStates(communicator(), 0, /*wanted=*/true, &states); !status.ok()) {
    return status;
  }
  // There is no way back to a job that begins.
  if (has_others_state_ && states.empty()) {
    return absl::UnavailableError("the replicas that trained are lost, and there is no checkpoint");
  }
  received_.clear();
  return LoadAll(std::move(states));
}

absl::Status JobCore::LoadAll(StateMap states) {
  restored_ = std::move(states);
  if (restored_.empty()) return absl::OkStatus();
  if (absl::Status status = replay_.Load(restored_[kReplayState]); !status.ok()) return status;
  if (absl::Status status = profile_.Load(restored_[kProfileState]); !status.ok()) return status;
  restored_profile_ = true;
  const nlohmann::json job = nlohmann::json::parse(restored_[kJobState], nullptr, /*allow_exceptions=*/false);
  if (!job.is_object()) return absl::DataLossError("the saved job state cannot be read");
  optimizer_steps_ = job.value("optimizer_steps", int64_t{0});
  saved_steps_ = job.value("saved_steps", optimizer_steps_);
  // Checkpoints from before batch sizes could change do not hold it: each step was worth one.
  scale_invariant_steps_ = job.value("scale_invariant_steps", static_cast<double>(optimizer_steps_));
  pass_fraction_ = job.value("pass_fraction", 0.0);
  chosen_batch_.atomic_batch_size = job.value("atomic_batch_size", int64_t{0});
  chosen_batch_.micro_batches = job.value("micro_batches", int64_t{0});
  chosen_batch_.replicas = job.value("batch_replicas", 0);
  progress_surplus_ = job.value("progress_surplus", 0.0);
  if (job.contains("gradient_sqr")) {
    SetGradientStatistics(job.value("gradient_sqr", 0.0), job.value("gradient_var", 0.0));
  }
  return absl::OkStatus();
}

absl::Status JobCore::SendAll(comm::Communicator& communicator) {
  StateMap own = OwnStates();
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

absl::Status JobCore::ReceiveAll(comm::Communicator& communicator, int source) {
  Receiver receiver(dependencies_.expected);
  absl::Status status = ReceiveStates(communicator, source, &receiver);
  has_others_state_ = has_others_state_ || status.ok() || !receiver.written().empty();
  if (!status.ok()) return status;
  received_ = receiver.written();
  return LoadAll(receiver.TakeOthers());
}

void JobCore::SaveStep(StateMap* states) {
  for (CheckpointState* state : states_) {
    if (state->changes_with_steps()) state->SaveInto(&(*states)[state->name()]);
  }
  (*states)[kStepState] = nlohmann::json{{"optimizer_steps", optimizer_steps_},
                                         {"scale_invariant_steps", scale_invariant_steps_},
                                         {"gain", last_gain_},
                                         {"signals", last_signals_.numbers()}}
                              .dump();
}

absl::Status JobCore::LoadStep(const StateMap& states) {
  for (CheckpointState* state : states_) {
    if (!state->changes_with_steps()) continue;
    const auto saved = states.find(state->name());
    if (saved == states.end() || !state->LoadStep(saved->second)) {
      return absl::InternalError(
          absl::StrCat("the state \"", state->name(), "\" of another replica cannot be taken over"));
    }
  }
  const nlohmann::json step = nlohmann::json::parse(states.at(kStepState));
  optimizer_steps_ = step.at("optimizer_steps");
  scale_invariant_steps_ = step.at("scale_invariant_steps");
  last_gain_ = step.at("gain");
  stepped_ = true;
  AgreeOn(Signals::Of(step.at("signals").get<std::vector<double>>()));
  return absl::OkStatus();
}

bool JobCore::Register(CheckpointState* state) {
  for (const CheckpointState* other : states_) {
    if (other->name() == state->name()) {
      FailUsage(absl::StrCat("two checkpoint states are named \"", state->name(),
                             "\"; give each a name of its own"));
    }
  }
  states_.push_back(state);
  const bool loaded = LoadState(state);
  if (state->piecewise() != nullptr) state->piecewise()->Release();
  return loaded;
}

bool JobCore::LoadState(CheckpointState* state) {
  if (received_.erase(state) > 0) return true;
  const auto saved = restored_.find(state->name());
  if (saved == restored_.end()) {
    if (!restored_.empty() && leads_) {
      std::fprintf(stderr, "adaptdl: the checkpoint holds no state \"%s\": it starts anew\n",
                   state->name().c_str());
    }
    return false;
  }
  if (!state->Load(saved->second)) {
    FailUsage(
        absl::StrCat("the state \"", state->name(),
                     "\" of the checkpoint cannot be loaded; was the program changed since it was written?"));
  }
  restored_.erase(saved);
  return true;
}

void JobCore::Unregister(CheckpointState* state) { std::erase(states_, state); }

StateMap JobCore::OwnStates() {
  nlohmann::json job = {{"optimizer_steps", optimizer_steps_},
                        {"saved_steps", saved_steps_},
                        {"scale_invariant_steps", scale_invariant_steps_},
                        {"pass_fraction", pass_fraction_},
                        {"atomic_batch_size", chosen_batch_.atomic_batch_size},
                        {"micro_batches", chosen_batch_.micro_batches},
                        {"batch_replicas", chosen_batch_.replicas},
                        {"progress_surplus", progress_surplus_}};
  if (const auto grad = controller_.grad_params()) {
    job["gradient_sqr"] = grad->sqr;
    job["gradient_var"] = grad->var;
  }
  return {{kJobState, job.dump()}, {kReplayState, replay_.Save()}, {kProfileState, profile_.Save()}};
}

// `states` comes with what an earlier checkpoint held, for its memory.
void JobCore::CollectStates(StateMap* states) {
  StateMap old = std::move(*states);
  const auto bytes_of = [&](const std::string& name) -> std::string& {
    if (auto node = old.extract(name)) states->insert(std::move(node));
    return (*states)[name];
  };
  states->clear();
  for (const auto& [name, bytes] : restored_) bytes_of(name) = bytes;
  for (const auto& [name, bytes] : OwnStates()) bytes_of(name) = bytes;
  for (CheckpointState* state : states_) state->SaveInto(&bytes_of(state->name()));
}

}  // namespace adaptdl::elastic
