// Client channels, all made the same way: keep-alive that the servers permit, bounded messages, back-off when
// a server is away, and retries of calls that never reached it.

#ifndef ADAPTDL_LIBS_RPC_CHANNEL_H_
#define ADAPTDL_LIBS_RPC_CHANNEL_H_

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "grpc/support/time.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/channel_arguments.h"
#include "libs/rpc/security.h"

namespace adaptdl::rpc {

// Largest message that any of our servers and clients accepts, in bytes.
inline constexpr int kMaxMessageBytes = 4 << 20;

// Keep-alive pings of clients; servers permit one each half of this.
inline constexpr absl::Duration kKeepalivePeriod = absl::Seconds(30);

// Of all channels, but for what depends on the credentials.
grpc::ChannelArguments MakeChannelArguments();

// A channel to `address` ("host:port"). Never blocks; the connection is made by the first call. Thread-safe.
std::shared_ptr<grpc::Channel> CreateChannel(const std::string& address, const ClientSecurity& security);

// The same for one of many servers: all share the credentials, and with them one watch of the files.
std::shared_ptr<grpc::Channel> CreateChannel(const std::string& address,
                                             const ClientCredentials& credentials);

// Waits until the channel is connected or an attempt to connect has failed, a second at most. To be called
// before each attempt by those who make blocking calls and pause after failures: a connection is only worked
// on while somebody waits for it, and calls on a channel that has failed before do not wait. A TLS handshake
// may then never come to its end.
void AwaitConnection(grpc::Channel* channel);

// What gRPC is to be given for "so much from now". A deadline by the wall clock, as from
// std::chrono::system_clock, is another one once the clock was set; this one is not.
gpr_timespec DeadlineAfter(absl::Duration timeout);

// Sets the call's deadline to `timeout` from now, and makes it part of the trace that this thread works on. Every call
// has one, streams excepted.
void SetTimeout(grpc::ClientContext* context, absl::Duration timeout);

// Makes the call part of the trace that this thread works on (tracing::Scope), if there is one. Once, before the call
// begins; SetTimeout() has done it.
void AddTrace(grpc::ClientContext* context);

}  // namespace adaptdl::rpc

#endif  // ADAPTDL_LIBS_RPC_CHANNEL_H_
