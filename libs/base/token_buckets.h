// How often each of many callers may do something: each has a bucket of `burst` tokens, takes one for each
// time, and gets one back per `period`.
//
//   TokenBuckets reports(20, absl::Seconds(5));
//   if (!reports.Take(job, clock.Steady())) ... it is one too many ...
//
// A caller with a full bucket takes no memory for long. Not thread-safe.

#ifndef ADAPTDL_LIBS_BASE_TOKEN_BUCKETS_H_
#define ADAPTDL_LIBS_BASE_TOKEN_BUCKETS_H_

#include <algorithm>
#include <cstddef>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/time/time.h"

namespace adaptdl {

class TokenBuckets {
 public:
  TokenBuckets(int burst, absl::Duration period) : period_(period), capacity_(burst * period) {}

  // Takes one of the caller's tokens. False: there is none.
  bool Take(const std::string& caller, absl::Time now) {
    Sweep(now);
    absl::Time& full = full_.try_emplace(caller, now).first->second;
    full = Settled(full, now);
    if (full + period_ - now > capacity_) return false;
    full += period_;
    return true;
  }

  // How long until there is one. Zero: there is.
  absl::Duration Wait(const std::string& caller, absl::Time now) const {
    const auto it = full_.find(caller);
    if (it == full_.end()) return absl::ZeroDuration();
    return std::max(absl::ZeroDuration(), Settled(it->second, now) + period_ - now - capacity_);
  }

  void Forget(const std::string& caller) { full_.erase(caller); }

  // Callers that are remembered.
  size_t size() const { return full_.size(); }

 private:
  // Time may also be set back: nobody waits longer for that than from an empty bucket.
  absl::Time Settled(absl::Time full, absl::Time now) const { return std::clamp(full, now, now + capacity_); }

  void Sweep(absl::Time now) {
    if (full_.size() < sweep_at_) return;
    std::erase_if(full_, [now](const auto& entry) { return entry.second <= now; });
    sweep_at_ = std::max<size_t>(1024, 2 * full_.size());
  }

  const absl::Duration period_;
  const absl::Duration capacity_;
  // When the bucket will be full again if nothing is taken from it.
  std::unordered_map<std::string, absl::Time> full_;
  size_t sweep_at_ = 1024;
};

}  // namespace adaptdl

#endif  // ADAPTDL_LIBS_BASE_TOKEN_BUCKETS_H_
