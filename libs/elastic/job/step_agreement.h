// What all replicas agree on with every step: a few numbers that are summed up over them, most often as a
// part of the gradients' exchange. Who has something to agree on is a source; each has its numbers to itself.
//
//   sources ──Offer()──▶ Local() ──summed up over all replicas──▶ AgreeOn() ──OnAgreed()──▶ sources
//
// Which sources there are, and in what order, is the same on all replicas and does not change: the sums can
// be told apart by place alone, and a replica that learns of them later comes to the same.
//
// Thread-safety: the training thread; sources that other threads tell something guard it themselves.

#ifndef ADAPTDL_LIBS_ELASTIC_JOB_STEP_AGREEMENT_H_
#define ADAPTDL_LIBS_ELASTIC_JOB_STEP_AGREEMENT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace adaptdl::elastic {

class SignalSource {
 public:
  virtual ~SignalSource() = default;

  // Always the same.
  virtual size_t num_signals() const = 0;
  // What this replica has to say; `signals` has so many zeros. They may travel as float32: each is a whole
  // number, and its sum below 2^24. `in_step`: whether the optimiser is about to take a step.
  virtual void Offer(bool in_step, absl::Span<double> signals) = 0;
  // The sums over `members` replicas. Said once per collective that carried them, whichever group ran it:
  // they say all by themselves what was agreed on, so that members that learn of it in another group come to
  // the same.
  virtual void OnAgreed(absl::Span<const double> sums, int members) = 0;
};

class StepAgreement {
 public:
  // None is owned.
  explicit StepAgreement(std::vector<SignalSource*> sources) : sources_(std::move(sources)) {}

  // What this replica wants all to know.
  std::vector<double> Local(bool in_step = true) const;
  // The sums of what Local() gave on all of them.
  void AgreeOn(absl::Span<const double> sums);
  // What AgreeOn() was told last.
  const std::vector<double>& last() const { return last_; }

 private:
  const std::vector<SignalSource*> sources_;
  std::vector<double> last_;
};

// Two numbers of the loop in progress: whoever runs the loop knows what their sums over all replicas mean.
class LoopSignal final : public SignalSource {
 public:
  // For the next step.
  void Set(int64_t first, int64_t second) {
    first_ = first;
    second_ = second;
  }
  // As of the last step; 0 if the replicas have changed since.
  int64_t first() const { return agreed_first_; }
  int64_t second() const { return agreed_second_; }
  void Forget() { agreed_first_ = agreed_second_ = 0; }

  size_t num_signals() const override { return 2; }
  void Offer(bool /*in_step*/, absl::Span<double> signals) override {
    signals[0] = static_cast<double>(first_);
    signals[1] = static_cast<double>(second_);
  }
  void OnAgreed(absl::Span<const double> sums, int /*members*/) override {
    agreed_first_ = static_cast<int64_t>(sums[0]);
    agreed_second_ = static_cast<int64_t>(sums[1]);
  }

 private:
  int64_t first_ = 0;
  int64_t second_ = 0;
  int64_t agreed_first_ = 0;
  int64_t agreed_second_ = 0;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_JOB_STEP_AGREEMENT_H_
