#include "libs/elastic/job/stop_request.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "libs/base/say.h"

namespace adaptdl::elastic {

void StopRequest::Request(const std::string& reason) {
  MutexLock lock(&mutex_);
  if (requested_) return;
  requested_ = true;
  since_ = seconds_();
  Say(Severity::kNotice, absl::StrCat("asked to stop (", reason, ")"));
}

bool StopRequest::TakeOverdue(double waiting_since) {
  if (waiting_since < 0) return false;
  MutexLock lock(&mutex_);
  if (since_ < 0) return false;
  const double waited = seconds_() - std::max(since_, waiting_since);
  if (waited < absl::ToDoubleSeconds(timeout_)) return false;
  since_ = -1;
  return true;
}

void StopRequest::Settle() {
  agreed_ = false;
  MutexLock lock(&mutex_);
  since_ = -1;
}

void StopRequest::Offer(bool /*in_step*/, absl::Span<double> signals) {
  MutexLock lock(&mutex_);
  signals[0] = requested_ ? 1 : 0;
}

void StopRequest::OnAgreed(absl::Span<const double> sums, int /*members*/) {
  agreed_ = agreed_ || sums[0] > 0;
}

}  // namespace adaptdl::elastic
