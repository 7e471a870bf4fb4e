#include "libs/kube/control/leader_election.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace adaptdl::kube {
namespace {

int64_t TermOf(const Json& lease, const std::string& annotation) {
  int64_t term = 0;
  return absl::SimpleAtoi(AnnotationOf(lease, annotation), &term) ? term : 0;
}

std::string HolderOf(const Json& lease) { return TextAt(lease, {"spec", "holderIdentity"}); }

}  // namespace

LeaderElection::LeaderElection(const Client* client, LeaderElectionOptions options)
    : client_(*client), options_(std::move(options)), target_(ObjectOf(Leases(), options_.lease)) {}

LeaderElection::~LeaderElection() = default;  // the thread is stopped first

std::string LeaderElection::seen_holder() const {
  MutexLock lock(&mutex_);
  return HolderOf(lease_);
}

bool LeaderElection::Valid() const {
  MutexLock lock(&valid_mutex_);
  return Now() < valid_until_;
}

absl::Status LeaderElection::AwaitValid(absl::Duration timeout) const {
  const absl::Time deadline = Now() + timeout;
  MutexLock lock(&valid_mutex_);
  while (Now() >= valid_until_) {
    const absl::Duration left = deadline - Now();
    if (left <= absl::ZeroDuration())
      return absl::DeadlineExceededError("the lease could not be renewed in time");
    held_longer_.WaitFor(&valid_mutex_, left);
  }
  return absl::OkStatus();
}

void LeaderElection::SetValidUntil(absl::Time time) {
  MutexLock lock(&valid_mutex_);
  valid_until_ = time;
  held_longer_.SignalAll();
}

bool LeaderElection::IsFree(const Json& lease) {
  if (At(lease, {"spec"}) != At(lease_, {"spec"}) || lease_.is_null()) seen_since_ = Now();
  lease_ = lease;
  const std::string holder = HolderOf(lease);
  // Its own name is there if it could not be told that it was written.
  if (holder.empty() || holder == options_.identity) return true;
  const int64_t seconds = std::max<int64_t>(IntegerAt(lease, {"spec", "leaseDurationSeconds"}), 1);
  return Now() - seen_since_ >= absl::Seconds(seconds);
}

Json LeaderElection::HeldLease(const Json& lease, int64_t term) const {
  Json held = lease;
  if (!held.is_object()) {
    held = {{"apiVersion", Leases().ApiVersion()},
            {"kind", Leases().kind},
            {"metadata", {{"namespace", options_.lease.name_space}, {"name", options_.lease.name}}}};
  }
  const std::string now = MicroTimeText(client_.session().clock().Now());
  Json spec = At(held, {"spec"}).is_object() ? held["spec"] : Json::object();
  if (HolderOf(held) != options_.identity) {
    spec["acquireTime"] = now;
    spec["leaseTransitions"] = IntegerAt(spec, {"leaseTransitions"}) + (HolderOf(held).empty() ? 0 : 1);
  }
  spec["holderIdentity"] = options_.identity;
  spec["leaseDurationSeconds"] = absl::ToInt64Seconds(options_.duration);
  spec["renewTime"] = now;
  held["spec"] = std::move(spec);
  held["metadata"]["annotations"][options_.term_annotation] = absl::StrCat(term);
  return held;
}

absl::StatusOr<bool> LeaderElection::TryAcquire(const std::stop_token& stop) {
  MutexLock lock(&mutex_);
  const absl::StatusOr<Json> lease = client_.Get(target_, stop);
  if (absl::IsNotFound(lease.status())) {
    lease_ = nullptr;
    return Take(lease_, stop);
  }
  if (!lease.ok()) return lease.status();
  return IsFree(*lease) ? Take(*lease, stop) : false;
}

absl::StatusOr<bool> LeaderElection::Take(const Json& lease, const std::stop_token& stop) {
  const absl::Time begin = Now();
  const int64_t term = std::max(TermOf(lease, options_.term_annotation) + 1,
                                absl::ToUnixMillis(client_.session().clock().Now()));
  const ChangeOptions change = {.field_manager = options_.field_manager};
  const Json held = HeldLease(lease, term);
  absl::StatusOr<Json> written =
      lease.is_object() ? client_.Replace(target_, held, change, stop)
                        : client_.Create(Collection(Leases(), options_.lease.name_space), held, change, stop);
  // Somebody else was quicker.
  if (absl::IsAborted(written.status()) || absl::IsAlreadyExists(written.status())) return false;
  if (!written.ok()) return written.status();
  held_ = true;
  term_ = term;
  Hold(*std::move(written), begin);
  return true;
}

absl::Status LeaderElection::Acquire(const std::function<void(const absl::Status&)>& report,
                                     const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    const absl::StatusOr<bool> leads = TryAcquire(stop);
    if (leads.ok() && *leads) return absl::OkStatus();
    if (!leads.ok() && report != nullptr && !stop.stop_requested()) report(leads.status());
    client_.session().pauses().WaitFor(options_.renew_period, stop);
  }
  return absl::CancelledError("a stop was requested");
}

void LeaderElection::Hold(Json lease, absl::Time begin) {
  lease_ = std::move(lease);
  SetValidUntil(begin + options_.duration);
}

absl::Status LeaderElection::Lose(const std::string& why) {
  SetValidUntil(absl::InfinitePast());
  held_ = false;
  if (!std::exchange(lost_, true)) options_.lost(why);
  return absl::FailedPreconditionError(why);
}

absl::Status LeaderElection::Renew(const std::stop_token& stop) {
  MutexLock lock(&mutex_);
  return Write(term_.load(), stop);
}

absl::Status LeaderElection::RaiseTerm(int64_t least, const std::stop_token& stop) {
  MutexLock lock(&mutex_);
  if (least <= term_.load()) return absl::OkStatus();
  if (const absl::Status status = Write(least, stop); !status.ok()) return status;
  term_ = least;
  return absl::OkStatus();
}

absl::Status LeaderElection::Write(int64_t term, const std::stop_token& stop) {
  if (!held_) return absl::FailedPreconditionError("the lease is not held");
  const absl::Time begin = Now();
  // A term that could not be told to have been written stands.
  const int64_t at_least = std::max(term, TermOf(lease_, options_.term_annotation));
  absl::StatusOr<Json> written =
      client_.Replace(target_, HeldLease(lease_, at_least), {.field_manager = options_.field_manager}, stop);
  if (!written.ok()) return LookAgain(written.status(), stop);
  Hold(*std::move(written), begin);
  return absl::OkStatus();
}

absl::Status LeaderElection::LookAgain(const absl::Status& refusal, const std::stop_token& stop) {
  if (absl::IsNotFound(refusal))
    return Lose(absl::StrCat("the lease ", options_.lease.ToString(), " was deleted"));
  if (!absl::IsAborted(refusal)) return refusal;
  const absl::StatusOr<Json> lease = client_.Get(target_, stop);
  if (!lease.ok()) return lease.status();
  const std::string holder = HolderOf(*lease);
  if (holder != options_.identity)
    return Lose(absl::StrCat(holder.empty() ? "nobody" : holder, " has the lease"));
  // An earlier write was done after all, or somebody has set a label: the next one is made to what is there.
  lease_ = *lease;
  return refusal;
}

void LeaderElection::StartRenewal() {
  thread_ = std::jthread([this](const std::stop_token& stop) {
    while (client_.session().pauses().WaitFor(options_.renew_period, stop)) {
      if (absl::IsFailedPrecondition(Renew(stop))) return;
    }
  });
}

void LeaderElection::Release(const std::stop_token& stop) {
  thread_ = std::jthread();  // ends the renewal
  MutexLock lock(&mutex_);
  SetValidUntil(absl::InfinitePast());
  if (!std::exchange(held_, false)) return;
  Json free = lease_;
  free["spec"]["holderIdentity"] = "";
  // If this fails, the lease expires.
  client_.Replace(target_, free, {.field_manager = options_.field_manager}, stop).IgnoreError();
}

}  // namespace adaptdl::kube
