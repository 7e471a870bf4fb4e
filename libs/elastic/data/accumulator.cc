#include "adaptdl/accumulator.h"

#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "libs/elastic/job/job_core.h"

namespace adaptdl {
namespace {

void Append(double value, std::string* to) {
  to->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// Entries as "<bytes of the key, as double><key><value>".
std::string Encode(const std::map<std::string, double>& updates) {
  std::string text;
  for (const auto& [key, value] : updates) {
    Append(static_cast<double>(key.size()), &text);
    text += key;
    Append(value, &text);
  }
  return text;
}

double TakeDouble(absl::string_view* text) {
  double value = 0;
  std::memcpy(&value, text->data(), sizeof(value));
  text->remove_prefix(sizeof(value));
  return value;
}

void AddEncoded(absl::string_view text, std::map<std::string, double>* totals) {
  while (!text.empty()) {
    const auto bytes = static_cast<size_t>(TakeDouble(&text));
    const std::string key(text.substr(0, bytes));
    text.remove_prefix(bytes);
    (*totals)[key] += TakeDouble(&text);
  }
}

}  // namespace

Accumulator::Accumulator(Job& job) : job_(job), name_(job.core().replay().NewAccumulatorName()) {
  job_.core().Attach(this);
}

Accumulator::~Accumulator() { job_.core().Detach(this); }

void Accumulator::Add(const std::string& key, double value) {
  // What was added by this code before the restart is in the restored totals.
  if (job_.core().replay().replaying()) return;
  // Computed on a stand-in for an empty share.
  const elastic::JobCore::MicroBatch& batch = job_.core().micro_batch();
  if (batch.step_total > 0 && batch.local == 0) return;
  // A step may come to nothing.
  (job_.core().replay().in_loop() ? step_ : pending_)[key] += value;
}

void Accumulator::Update(const std::map<std::string, double>& values) {
  for (const auto& [key, value] : values) Add(key, value);
}

void Accumulator::Subtract(const std::map<std::string, double>& values) {
  for (const auto& [key, value] : values) Add(key, -value);
}

void Accumulator::Clear() {
  elastic::ReplayState& replay = job_.core().replay();
  elastic::AccumulatorRecord& record = replay.accumulator(name_);
  step_.clear();
  pending_.clear();
  visible_.clear();
  // Code outside data loader loops runs again after a restart: what was added since the first time stays.
  if (!replay.in_loop() && cleared_++ < record.clears) return;
  if (!replay.in_loop()) ++record.clears;
  record.totals.clear();
}

double Accumulator::Get(const std::string& key) const {
  const auto total = visible_.find(key);
  return total == visible_.end() ? 0 : total->second;
}

const std::map<std::string, double>& Accumulator::Synchronize() {
  elastic::JobCore& core = job_.core();
  elastic::AccumulatorRecord& record = core.replay().accumulator(name_);
  if (core.replay().in_loop()) {
    // Should the step be begun anew, so is what it adds.
    if (!before_step_) before_step_ = BeforeStep{record.totals, pending_};
    Merge();
    if (!core.step_is_void()) visible_ = record.totals;
    return visible_;
  }
  const auto number = static_cast<size_t>(synchronized_++);
  if (number < record.history.size()) {
    // Done before the restart: what the replayed code has added since is in there already.
    pending_.clear();
    visible_ = record.history[number];
    return visible_;
  }
  Merge();
  record.history.push_back(record.totals);
  visible_ = record.totals;
  return visible_;
}

void Accumulator::Merge() {
  elastic::JobCore& core = job_.core();
  std::map<std::string, double> updates = pending_;
  for (const auto& [key, value] : step_) updates[key] += value;
  const std::vector<std::string> all = core.Gather(Encode(updates));
  if (core.step_is_void()) return;
  // In order of rank, so that all replicas get the same to the last bit.
  for (const std::string& update : all) AddEncoded(update, &core.replay().accumulator(name_).totals);
  step_.clear();
  pending_.clear();
}

void Accumulator::KeepStep() {
  for (const auto& [key, value] : step_) pending_[key] += value;
  step_.clear();
  before_step_.reset();
}

void Accumulator::DropStep() {
  step_.clear();
  if (!before_step_) return;
  job_.core().replay().accumulator(name_).totals = std::move(before_step_->totals);
  pending_ = std::move(before_step_->pending);
  before_step_.reset();
}

}  // namespace adaptdl
