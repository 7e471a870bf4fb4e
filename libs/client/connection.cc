#include "libs/client/connection.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/rpc/retry_info.h"
#include "libs/rpc/status.h"
#include "libs/rpc/status_code.h"

namespace adaptdl::client {
namespace {

constexpr absl::Duration kLongestWait = absl::Seconds(90);
constexpr absl::Duration kShortestWait = absl::Milliseconds(100);

}  // namespace

Connection::Connection(const Access& access, absl::Duration call_timeout, const Clock& clock)
    : clock_(clock),
      call_timeout_(call_timeout),
      address_(absl::StrJoin(access.addresses, ",")),
      supervisors_(access.addresses, access.security) {}

std::shared_ptr<grpc::Channel> Connection::Connected() {
  rpc::Endpoint supervisor = supervisors_.current();
  rpc::AwaitConnection(supervisor.channel.get());
  return std::move(supervisor.channel);
}

absl::Status Connection::Explain(const grpc::Status& status) const {
  switch (rpc::CodeOf(status)) {
    case grpc::StatusCode::UNAVAILABLE:
      return absl::UnavailableError(
          absl::StrCat("supervisor unreachable at ", address_, " (", status.error_message(), ")"));
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return absl::DeadlineExceededError(absl::StrCat("supervisor at ", address_, " did not answer within ",
                                                      absl::FormatDuration(call_timeout_),
                                                      "; call_timeout gives it longer"));
    case grpc::StatusCode::UNIMPLEMENTED:
      return absl::UnimplementedError(absl::StrCat(
          "the server at ", address_, " does not know this call: is it a supervisor, and of this version? (",
          status.error_message(), ")"));
    default:
      return rpc::FromGrpcStatus(status);
  }
}

bool Connection::WaitAsTold(const grpc::Status& status, absl::Duration* waited) const {
  if (status.error_code() != grpc::StatusCode::RESOURCE_EXHAUSTED) return false;
  const std::optional<absl::Duration> told = rpc::RetryDelayOf(rpc::FromGrpcStatus(status));
  if (!told.has_value() || *waited + *told > kLongestWait) return false;
  // Others were told the same: not all are to come back at once, nor the same one again and again.
  const absl::Duration delay = std::max(*told, kShortestWait) + *waited / 4;
  clock_.SleepFor(delay);
  *waited += delay;
  return true;
}

void Reconnector::Heard() {
  backoff_.Reset();
  outage_start_ = absl::InfiniteFuture();
}

bool Reconnector::WaitToRetry(const grpc::Status& status) {
  // A server that is shut down ends the streams that it still has, or cancels them.
  if (!status.ok() && rpc::CodeOf(status) != grpc::StatusCode::UNAVAILABLE &&
      status.error_code() != grpc::StatusCode::CANCELLED) {
    return false;
  }
  const absl::Time now = clock_.Steady();
  outage_start_ = std::min(outage_start_, now);
  if (now - outage_start_ > kLongestOutage) return false;
  clock_.SleepFor(backoff_.Next());
  return true;
}

}  // namespace adaptdl::client
