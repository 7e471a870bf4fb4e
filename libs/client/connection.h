// The supervisor, or several of which one leads: calls with deadlines, which are repeated when they did not
// reach it.
//
// Thread-safe.

#ifndef ADAPTDL_LIBS_CLIENT_CONNECTION_H_
#define ADAPTDL_LIBS_CLIENT_CONNECTION_H_

#include <algorithm>
#include <memory>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/client_context.h"
#include "libs/base/backoff.h"
#include "libs/base/clock.h"
#include "libs/client/settings.h"
#include "libs/rpc/channel.h"
#include "libs/rpc/endpoints.h"
#include "libs/rpc/status_code.h"

namespace adaptdl::client {

// Tries after the first one of a call that was answered UNAVAILABLE (with several supervisors: as many as the
// call's time allows), and the time before the first and the last of them.
inline constexpr int kRetries = 3;
inline constexpr absl::Duration kFirstRetryDelay = absl::Milliseconds(200);
inline constexpr absl::Duration kLongestRetryDelay = absl::Milliseconds(800);
// How long a supervisor that was there may stay away before a stream is given up.
inline constexpr absl::Duration kLongestOutage = absl::Seconds(60);

class Connection {
 public:
  // `clock` outlives it.
  Connection(const Access& access, absl::Duration call_timeout, const Clock& clock);

  const Clock& clock() const { return clock_; }

  // One unary call: connection.Call(&v1::JobService::Stub::GetJob, request).
  template <typename Stub, typename Request, typename Response>
  absl::StatusOr<Response> Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                                const std::type_identity_t<Request>& request) {
    absl::Time deadline = clock_.Steady() + call_timeout_;
    absl::Duration waited;
    Backoff backoff(kFirstRetryDelay, kLongestRetryDelay);
    for (int attempt = 0;; ++attempt) {
      const rpc::Endpoint supervisor = supervisors_.current();
      // A channel that has failed before connects only while somebody waits for it.
      if (attempt > 0) rpc::AwaitConnection(supervisor.channel.get());
      grpc::ClientContext context;
      rpc::SetTimeout(&context, std::max(deadline - clock_.Steady(), absl::Milliseconds(1)));
      Response response;
      const grpc::Status status = (Stub(supervisor.channel).*method)(&context, request, &response);
      if (status.ok()) return response;
      if (WaitAsTold(status, &waited)) {
        deadline = clock_.Steady() + call_timeout_;
        continue;
      }
      if (rpc::CodeOf(status) != grpc::StatusCode::UNAVAILABLE) return Explain(status);
      supervisors_.GoOn(supervisor);
      const absl::Duration delay = backoff.Next();
      const bool tried_enough = !supervisors_.several() && attempt >= kRetries;
      if (tried_enough || clock_.Steady() + delay >= deadline) return Explain(status);
      clock_.SleepFor(delay);
    }
  }

  // For streams: that of the supervisor that answered last, connected if it can be.
  std::shared_ptr<grpc::Channel> Connected();
  // It has broken a stream: the next one is tried from now on.
  void GoOn() { supervisors_.GoOn(supervisors_.current()); }

  // The status, with a text for people where the connection failed.
  absl::Status Explain(const grpc::Status& status) const;

 private:
  // Waits if the server says that the call may succeed after some time, a minute and a half in all. Whether
  // it has.
  bool WaitAsTold(const grpc::Status& status, absl::Duration* waited) const;

  const Clock& clock_;
  const absl::Duration call_timeout_;
  // For people.
  const std::string address_;
  rpc::Endpoints supervisors_;
};

// Decides whether a stream that broke is opened again, and waits before it is. Not thread-safe.
class Reconnector {
 public:
  // `clock` outlives it.
  explicit Reconnector(const Clock& clock) : clock_(clock) {}

  // Something was heard: an outage, if there was one, is over.
  void Heard();
  // Whether to try again after a stream ended so.
  bool WaitToRetry(const grpc::Status& status);

 private:
  const Clock& clock_;
  Backoff backoff_{kFirstRetryDelay, absl::Seconds(2)};
  absl::Time outage_start_ = absl::InfiniteFuture();
};

}  // namespace adaptdl::client

#endif  // ADAPTDL_LIBS_CLIENT_CONNECTION_H_
