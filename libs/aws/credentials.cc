#include "libs/aws/credentials.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace adaptdl::aws {
namespace {

// Before they expire, others are fetched: long before, so that an outage of whoever has them does no harm.
constexpr absl::Duration kRenewBefore = absl::Minutes(5);
// Those that expire on the way to the service are of no use.
constexpr absl::Duration kMargin = absl::Seconds(10);
// Between two tries of fetching new ones while old ones last.
constexpr absl::Duration kFetchPause = absl::Seconds(30);

}  // namespace

KeptCredentials::KeptCredentials(std::vector<std::unique_ptr<CredentialPlace>> places, const Clock* clock)
    : places_(std::move(places)), clock_(*clock) {}

absl::StatusOr<Credentials> KeptCredentials::Get(const std::stop_token& stop) {
  std::unique_lock<std::mutex> lock(mutex_);
  // Old ones that last are for those who come while others are fetched.
  fetched_.wait(lock, stop, [this] { return !fetching_ || Lasts(kMargin); });
  if (stop.stop_requested()) return absl::CancelledError("a stop was requested");
  const bool may_wait = fetching_ || clock_.Steady() < next_fetch_;
  if (Lasts(kRenewBefore) || (Lasts(kMargin) && may_wait)) return *kept_;
  fetching_ = true;
  lock.unlock();
  absl::StatusOr<Credentials> fetched = Fetch(stop);
  lock.lock();
  fetching_ = false;
  fetched_.notify_all();
  if (fetched.ok()) {
    kept_ = *std::move(fetched);
    next_fetch_ = absl::InfinitePast();
    return *kept_;
  }
  if (!Lasts(kMargin) || absl::IsCancelled(fetched.status())) return fetched.status();
  next_fetch_ = clock_.Steady() + kFetchPause;
  return *kept_;
}

void KeptCredentials::Refused(const Credentials& credentials) {
  const std::lock_guard<std::mutex> lock(mutex_);
  // Somebody else may have renewed them.
  if (kept_.has_value() && *kept_ == credentials) kept_.reset();
}

absl::StatusOr<Credentials> KeptCredentials::Fetch(const std::stop_token& stop) {
  std::string reasons;
  for (const auto& place : places_) {
    absl::StatusOr<Credentials> fetched = place->Fetch(stop);
    if (fetched.ok()) {
      if (clock_.Now() + kMargin < fetched->expires) return fetched;
      return absl::UnauthenticatedError(absl::StrCat("the credentials of ", place->name(),
                                                     " have expired; is this machine's clock right?"));
    }
    if (!absl::IsNotFound(fetched.status())) {
      return absl::Status(fetched.status().code(),
                          absl::StrCat("credentials of ", place->name(), ": ", fetched.status().message()));
    }
    absl::StrAppend(&reasons, reasons.empty() ? "" : "; ", place->name(), ": ", fetched.status().message());
  }
  return absl::UnauthenticatedError(
      absl::StrCat("no credentials for Amazon: ", reasons,
                   ". Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give this machine a role"));
}

}  // namespace adaptdl::aws
