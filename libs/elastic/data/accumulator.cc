#include "adaptdl/accumulator.h"

#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "libs/elastic/job/job_core.h"
#include "libs/elastic/job/step_sums.h"

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

class Accumulator::Impl final : public elastic::StepSums {
 public:
  explicit Impl(Job& job) : core_(job.core()), name_(core_.replay().NewAccumulatorName()) {
    core_.loop().Attach(this);
  }
  ~Impl() override { core_.loop().Detach(this); }

  void Add(const std::string& key, double value) {
    // What was added by this code before the restart is in the restored totals.
    if (core_.replay().replaying()) return;
    // Computed on a stand-in for an empty share.
    const elastic::MicroBatch& batch = core_.step().micro_batch();
    if (batch.step_total > 0 && batch.local == 0) return;
    // A step may come to nothing.
    (core_.replay().in_loop() ? step_ : pending_)[key] += value;
  }

  void Clear() {
    elastic::ReplayState& replay = core_.replay();
    elastic::AccumulatorRecord& record = replay.accumulator(name_);
    step_.clear();
    pending_.clear();
    visible_.clear();
    // Code outside data loader loops runs again after a restart: what was added since the first time stays.
    if (!replay.in_loop() && cleared_++ < record.clears) return;
    if (!replay.in_loop()) ++record.clears;
    record.totals.clear();
  }

  double Get(const std::string& key) const {
    const auto total = visible_.find(key);
    return total == visible_.end() ? 0 : total->second;
  }

  const std::map<std::string, double>& Synchronize() {
    elastic::AccumulatorRecord& record = core_.replay().accumulator(name_);
    if (core_.replay().in_loop()) {
      // Should the step be begun anew, so is what it adds.
      if (!before_step_) before_step_ = BeforeStep{record.totals, pending_};
      for (const auto& [key, value] : step_) pending_[key] += value;
      Merge();
      if (!core_.step().is_void()) step_.clear();
      if (!core_.step().is_void()) visible_ = record.totals;
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

  void Merge() override {
    const std::vector<std::string> all = core_.team().Gather(Encode(pending_));
    if (core_.step().is_void()) return;
    // In order of rank, so that all replicas get the same to the last bit.
    for (const std::string& update : all) AddEncoded(update, &core_.replay().accumulator(name_).totals);
    pending_.clear();
  }

  void KeepStep() override {
    for (const auto& [key, value] : step_) pending_[key] += value;
    step_.clear();
    before_step_.reset();
  }

  void DropStep() override {
    step_.clear();
    if (!before_step_) return;
    core_.replay().accumulator(name_).totals = std::move(before_step_->totals);
    pending_ = std::move(before_step_->pending);
    before_step_.reset();
  }

 private:
  elastic::JobCore& core_;
  const std::string name_;
  // Added in the loop's step in progress; and before.
  std::map<std::string, double> step_;
  std::map<std::string, double> pending_;
  // What was there before a Synchronize() in the step in progress.
  struct BeforeStep {
    std::map<std::string, double> totals;
    std::map<std::string, double> pending;
  };
  std::optional<BeforeStep> before_step_;
  // Totals that reads show.
  std::map<std::string, double> visible_;
  // Synchronize() calls outside data loader loops since this object was made.
  int synchronized_ = 0;
  // The same of Clear().
  int cleared_ = 0;
};

Accumulator::Accumulator(Job& job) : impl_(std::make_unique<Impl>(job)) {}
Accumulator::~Accumulator() = default;

void Accumulator::Add(const std::string& key, double value) { impl_->Add(key, value); }

void Accumulator::Update(const std::map<std::string, double>& values) {
  for (const auto& [key, value] : values) Add(key, value);
}

void Accumulator::Subtract(const std::map<std::string, double>& values) {
  for (const auto& [key, value] : values) Add(key, -value);
}

void Accumulator::Clear() { impl_->Clear(); }
double Accumulator::Get(const std::string& key) const { return impl_->Get(key); }
const std::map<std::string, double>& Accumulator::Synchronize() { return impl_->Synchronize(); }

}  // namespace adaptdl
