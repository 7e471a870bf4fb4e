// Whether this replica was asked to stop, and whether all have agreed to.
//
// Thread-safety: Request() and TakeOverdue() from any thread; the training thread else.

#ifndef ADAPTDL_LIBS_ELASTIC_JOB_STOP_REQUEST_H_
#define ADAPTDL_LIBS_ELASTIC_JOB_STOP_REQUEST_H_

#include <cstddef>
#include <functional>
#include <string>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "libs/base/mutex.h"
#include "libs/elastic/job/step_agreement.h"

namespace adaptdl::elastic {

class StopRequest final : public SignalSource {
 public:
  // `timeout`: longest that this replica waits for others that do not agree. `seconds`: monotonic.
  StopRequest(absl::Duration timeout, std::function<double()> seconds)
      : timeout_(timeout), seconds_(std::move(seconds)) {}

  // The first one counts. `reason`: for people.
  void Request(const std::string& reason);
  // Whether others have kept this replica from stopping for too long; once. `waiting_since`: when it began to
  // wait for them; negative: it does not.
  bool TakeOverdue(double waiting_since);

  bool agreed() const { return agreed_; }
  // It is carried out now: nothing is overdue any more.
  void Settle();

  size_t num_signals() const override { return 1; }
  void Offer(bool in_step, absl::Span<double> signals) override;
  void OnAgreed(absl::Span<const double> sums, int members) override;

 private:
  const absl::Duration timeout_;
  const std::function<double()> seconds_;
  bool agreed_ = false;
  Mutex mutex_;
  bool requested_ ABSL_GUARDED_BY(mutex_) = false;
  // Of the request. Negative: there is none, or it is under way.
  double since_ ABSL_GUARDED_BY(mutex_) = -1;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_JOB_STOP_REQUEST_H_
