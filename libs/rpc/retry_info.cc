#include "libs/rpc/retry_info.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/cord.h"
#include "google/rpc/error_details.pb.h"
#include "libs/messages/proto_time.h"

namespace adaptdl::rpc {
namespace {

constexpr char kRetryInfoUrl[] = "type.googleapis.com/google.rpc.RetryInfo";

}  // namespace

absl::Status WithRetryDelay(absl::Status status, absl::Duration delay) {
  google::rpc::RetryInfo info;
  *info.mutable_retry_delay() = messages::ToProto(std::max(delay, absl::ZeroDuration()));
  status.SetPayload(kRetryInfoUrl, absl::Cord(info.SerializeAsString()));
  return status;
}

std::optional<absl::Duration> RetryDelayOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kRetryInfoUrl);
  google::rpc::RetryInfo info;
  if (!payload.has_value() || !info.ParseFromString(std::string(*payload))) return std::nullopt;
  return std::max(messages::ToDuration(info.retry_delay()), absl::ZeroDuration());
}

}  // namespace adaptdl::rpc
