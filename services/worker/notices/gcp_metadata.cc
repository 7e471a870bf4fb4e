#include "services/worker/notices/gcp_metadata.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace adaptdl::worker {
namespace {

// From the notice to the end. Machines with GPUs have more for maintenance; nobody says how much here.
constexpr absl::Duration kPreemptionWindow = absl::Seconds(30);
constexpr absl::Duration kMaintenanceWindow = absl::Seconds(60);
// It may have come right after the last look; an older one says nothing.
constexpr absl::Duration kLongestBetween = absl::Seconds(10);

}  // namespace

absl::StatusOr<std::optional<Notice>> GcpMetadata::Look(const std::stop_token& stop) {
  const Moment now = clock_->Both();
  const absl::StatusOr<std::string> preempted = Get("preempted", stop);
  if (!preempted.ok() && !absl::IsNotFound(preempted.status())) return preempted.status();
  if (preempted.ok() && *preempted == "TRUE") {
    return Notice{.deadline = DeadlineOf(kPreemptionWindow, now), .reason = "Google Cloud preempts the VM"};
  }
  if (preempted.ok() && *preempted != "FALSE") {
    return absl::InvalidArgumentError(
        absl::StrCat("instance/preempted: ", Quoted(*preempted), " is neither TRUE nor FALSE"));
  }
  const absl::StatusOr<std::string> event = Get("maintenance-event", stop);
  if (!event.ok() && !absl::IsNotFound(event.status())) return event.status();
  // Others mean that it moves while it runs.
  if (event.ok() && *event == "TERMINATE_ON_HOST_MAINTENANCE") {
    return Notice{.deadline = DeadlineOf(kMaintenanceWindow, now),
                  .reason = "Google Cloud stops the VM for maintenance of its host"};
  }
  nothing_at_ = now.steady;
  return std::nullopt;
}

absl::Time GcpMetadata::DeadlineOf(absl::Duration window, const Moment& now) const {
  const absl::Duration since =
      nothing_at_ == absl::InfinitePast() ? absl::ZeroDuration() : now.steady - nothing_at_;
  return now.wall + window - std::min(since, kLongestBetween);
}

absl::StatusOr<InstanceIdentity> GcpMetadata::Identify(const std::stop_token& stop) {
  const absl::StatusOr<std::string> id = Get("id", stop);
  if (!id.ok()) return id.status();
  return ReadIdentity(id, Get("network-interfaces/0/ip", stop));
}

absl::StatusOr<std::string> GcpMetadata::Get(absl::string_view name, const std::stop_token& stop) {
  absl::StatusOr<std::string> answer =
      client_.Get(absl::StrCat("/computeMetadata/v1/instance/", name), {"Metadata-Flavor: Google"}, stop);
  if (!answer.ok()) return answer.status();
  return std::string(absl::StripAsciiWhitespace(*answer));
}

}  // namespace adaptdl::worker
