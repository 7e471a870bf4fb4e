#include "libs/rpc/channel.h"

#include <algorithm>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/channel_arguments.h"
#include "libs/rpc/security.h"
#include "libs/rpc/steady_waits.h"
#include "libs/tracing/context.h"
#include "libs/tracing/scope.h"

namespace adaptdl::rpc {
namespace {

// What fits into a count of nanoseconds, with room.
constexpr absl::Duration kLongestTimeout = absl::Hours(24 * 365);

}  // namespace

std::shared_ptr<grpc::Channel> CreateChannel(const std::string& address, const ClientSecurity& security) {
  return CreateChannel(address, MakeClientCredentials(security));
}

grpc::ChannelArguments MakeChannelArguments() {
  LinkSteadyWaits();
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, static_cast<int>(absl::ToInt64Milliseconds(kKeepalivePeriod)));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  // Also how long an attempt may take: a thousand replicas that start at once keep a server's two cores busy
  // with handshakes for seconds.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5'000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2'000);
  // Unix proxies in the environment must not come between the parts of a cluster.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // Would answer almost every message with a ping, to find out how much the connection can carry: three
  // packets for a heartbeat instead of one.
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  return arguments;
}

std::shared_ptr<grpc::Channel> CreateChannel(const std::string& address,
                                             const ClientCredentials& credentials) {
  grpc::ChannelArguments arguments = MakeChannelArguments();
  // The certificate's name takes the place of the address's host; the other way round for the empty one.
  if (!credentials.server_name.empty()) arguments.SetSslTargetNameOverride(credentials.server_name);
  return grpc::CreateCustomChannel(address, credentials.channel, arguments);
}

void AwaitConnection(grpc::Channel* channel) {
  const gpr_timespec deadline = DeadlineAfter(absl::Seconds(1));
  bool tried = false;
  for (;;) {
    const grpc_connectivity_state state = channel->GetState(/*try_to_connect=*/true);
    if (state == GRPC_CHANNEL_READY || state == GRPC_CHANNEL_SHUTDOWN) return;
    if (state == GRPC_CHANNEL_TRANSIENT_FAILURE && tried) return;
    tried = tried || state != GRPC_CHANNEL_TRANSIENT_FAILURE;
    if (!channel->WaitForStateChange(state, deadline)) return;
  }
}

gpr_timespec DeadlineAfter(absl::Duration timeout) {
  LinkSteadyWaits();
  if (timeout == absl::InfiniteDuration()) return gpr_inf_future(GPR_CLOCK_MONOTONIC);
  const absl::Duration most = std::clamp(timeout, absl::ZeroDuration(), kLongestTimeout);
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_nanos(absl::ToInt64Nanoseconds(most), GPR_TIMESPAN));
}

void SetTimeout(grpc::ClientContext* context, absl::Duration timeout) {
  context->set_deadline(DeadlineAfter(timeout));
  AddTrace(context);
}

void AddTrace(grpc::ClientContext* context) {
  const tracing::Context& trace = tracing::Current();
  if (trace.valid()) context->AddMetadata(tracing::kTraceparent, tracing::Format(trace));
}

}  // namespace adaptdl::rpc
