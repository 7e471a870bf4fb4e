#include "services/supervisor/calls/admission.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/rpc/retry_info.h"
#include "libs/service/strangers.h"

namespace adaptdl::supervisor {
namespace {

// How soon a shed change may come again: the queue is long, and moves on quickly.
constexpr absl::Duration kShedDelay = absl::Seconds(1);
// How soon a stream may be opened again: another one has to end first.
constexpr absl::Duration kStreamDelay = absl::Seconds(5);

}  // namespace

Admission::Admission(const AdmissionOptions& options, const Clock* clock)
    : options_(options), clock_(clock) {}

void Admission::SetOnRefused(OnRefused on_refused) {
  MutexLock lock(&mutex_);
  on_refused_ = std::move(on_refused);
}

std::string Admission::CallerOf(const grpc::ServerContextBase& context, const security::Guard& guard) {
  if (!guard.open()) {
    const absl::StatusOr<security::Caller> caller = guard.CallerOf(context);
    if (caller.ok()) return absl::StrCat("caller:", caller->name);
  }
  return service::HostOf(context.peer());
}

std::string Admission::IdentityOf(const grpc::ServerContextBase& context, const security::Guard& guard) {
  if (guard.open()) return "";
  const absl::StatusOr<security::Caller> caller = guard.CallerOf(context);
  // A token may have been revoked since the guard let it in: nobody else is called so.
  return caller.ok() ? absl::StrCat(caller->proof, ":", caller->name) : absl::StrCat("peer:", context.peer());
}

Admission::Caller& Admission::Find(const std::string& caller) {
  const absl::Time now = clock_->Steady();
  const auto [it, is_new] = callers_.try_emplace(caller);
  Caller& found = it->second;
  if (is_new) {
    found.tokens = options_.burst;
    found.filled = now;
    if (callers_.size() > sweep_at_) {
      Sweep();
      return callers_[caller];
    }
  }
  const double earned = absl::ToDoubleSeconds(now - found.filled) * options_.calls_per_second;
  found.tokens = std::min(options_.burst, found.tokens + std::max(0.0, earned));
  found.filled = now;
  return found;
}

// One whose bucket is full again is as one that never called.
void Admission::Sweep() {
  const absl::Time now = clock_->Steady();
  const absl::Duration full = options_.calls_per_second > 0
                                  ? absl::Seconds(options_.burst / options_.calls_per_second)
                                  : absl::ZeroDuration();
  for (auto it = callers_.begin(); it != callers_.end();) {
    const Caller& caller = it->second;
    it = caller.streams == 0 && caller.filled != now && now - caller.filled >= full ? callers_.erase(it)
                                                                                    : std::next(it);
  }
  sweep_at_ = std::max<size_t>(1024, 2 * callers_.size());
}

absl::Status Admission::Refuse(const char* cause, std::string text, absl::Duration delay) {
  if (on_refused_) on_refused_(cause);
  return rpc::WithRetryDelay(absl::ResourceExhaustedError(std::move(text)), delay);
}

absl::Status Admission::Call(const std::string& caller) {
  if (options_.calls_per_second <= 0) return absl::OkStatus();
  MutexLock lock(&mutex_);
  Caller& found = Find(caller);
  if (found.tokens >= 1) {
    found.tokens -= 1;
    return absl::OkStatus();
  }
  const absl::Duration delay = absl::Seconds((1 - found.tokens) / options_.calls_per_second);
  return Refuse(
      "call_rate",
      absl::StrCat(
          "too many calls: one client may make ", options_.calls_per_second,
          " per second (--client-calls-per-second of the supervisor); slow down, or watch instead of "
          "asking again and again"),
      delay);
}

absl::StatusOr<std::shared_ptr<void>> Admission::Stream(const std::string& caller) {
  if (absl::Status status = Call(caller); !status.ok()) return status;
  MutexLock lock(&mutex_);
  Caller& found = Find(caller);
  if (options_.streams > 0 && found.streams >= options_.streams) {
    return Refuse("streams",
                  absl::StrCat("too many streams: one client may have ", options_.streams,
                               " open (--client-streams of the supervisor); end some first"),
                  kStreamDelay);
  }
  ++found.streams;
  return std::shared_ptr<void>(nullptr, [this, caller](void*) { CloseStream(caller); });
}

void Admission::CloseStream(const std::string& caller) {
  MutexLock lock(&mutex_);
  const auto it = callers_.find(caller);
  if (it != callers_.end()) --it->second.streams;
}

absl::Status Admission::Change(const std::string& caller, size_t waiting) {
  if (waiting >= options_.queue) {
    MutexLock lock(&mutex_);
    return Refuse("queue",
                  absl::StrCat("the supervisor is overloaded: ", waiting,
                               " tasks wait (--change-queue); try again later"),
                  kShedDelay);
  }
  return Call(caller);
}

}  // namespace adaptdl::supervisor
