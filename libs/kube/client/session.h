// What all calls to one API server share: its address, our credentials, the rate limit, and what is tried
// again. Clients, reflectors and elections borrow it.
//
//   auto session = Session::Create(*FindAccess());
//   Client client(session->get());
//
// A call is tried again, until its patience ends,
// - if it surely was not done: 429 and 503 with Retry-After, no connection, and once after 401 with renewed
//   credentials;
// - if it only reads: also after 500 to 504, a cut connection, or no answer in time.
// Any other change that failed may have been made.
//
// A controller's Lease is to have a session of its own, so that no backlog delays its renewal.
//
// Thread-safe. Errors as in the README of libs/kube.

#ifndef ADAPTDL_LIBS_KUBE_CLIENT_SESSION_H_
#define ADAPTDL_LIBS_KUBE_CLIENT_SESSION_H_

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/base/clock.h"
#include "libs/http/http_client.h"
#include "libs/http/pauses.h"
#include "libs/kube/access/access.h"
#include "libs/kube/client/rate_limit.h"
#include "libs/kube/client/resource_type.h"

namespace adaptdl::kube {

struct ApiRequest {
  std::string method = "GET";
  Target target;
  // Names and values, not escaped.
  std::vector<std::pair<std::string, std::string>> query = {};
  std::string content_type = "application/json";
  std::string body = {};
  // Of one try. Zero: the session's.
  absl::Duration timeout = absl::ZeroDuration();
};

// One try, for metrics and logs.
struct ApiCall {
  const ApiRequest& request;
  // What the server answered. 0: nothing.
  int http_status;
  absl::Duration took;
};

struct SessionOptions {
  std::string user_agent = "adaptdl";
  // Calls at once, and then one per period.
  int burst = 100;
  absl::Duration period = absl::Milliseconds(20);
  // Of one try.
  absl::Duration timeout = absl::Seconds(30);
  // No try is begun later than this after the first.
  absl::Duration patience = absl::Seconds(60);
  // Between tries where the server does not say.
  absl::Duration first_pause = absl::Milliseconds(200);
  absl::Duration longest_pause = absl::Seconds(10);
  // Asked before each try of a call that changes something (all but GET), on its thread. False: it is not made, but
  // UNAVAILABLE. For controllers that may change nothing while they do not lead. Null: they may always.
  std::function<bool()> may_change = nullptr;
  // Called after each try, on its thread. Null: nobody is told.
  std::function<void(const ApiCall&)> observe = nullptr;
  // They outlive the session; null: the machine's.
  const Clock* clock = nullptr;
  const Pauses* pauses = nullptr;
};

class Session {
 public:
  // INVALID_ARGUMENT: the access names no server, or one that is no URL.
  static absl::StatusOr<std::unique_ptr<Session>> Create(Access access, SessionOptions options = {});

  // The body of the answer.
  absl::StatusOr<std::string> Call(const ApiRequest& request, const std::stop_token& stop = {});

  // The same, but the answer's body goes to `sink` as it comes. OK: the server has ended it.
  absl::Status Stream(const ApiRequest& request, const HttpClient::Sink& sink,
                      const std::stop_token& stop = {});

  const std::string& default_namespace() const { return access_.default_namespace; }
  const Clock& clock() const { return clock_; }
  const Pauses& pauses() const { return pauses_; }

 private:
  Session(Access access, SessionOptions options);

  // One answer, however it was come by: an HTTP status of success, or an error.
  absl::StatusOr<std::string> TryUntilDone(const ApiRequest& request, const HttpClient::Sink* sink,
                                           const std::stop_token& stop);
  absl::StatusOr<HttpResponse> Try(const ApiRequest& request, const Credentials& credentials,
                                   const HttpClient::Sink* sink, const std::stop_token& stop);
  absl::StatusOr<HttpRequest> MakeRequest(const ApiRequest& request, const Credentials& credentials) const;

  const Access access_;
  const SessionOptions options_;
  const RealClock real_clock_;
  const RealPauses real_pauses_;
  const Clock& clock_;
  const Pauses& pauses_;
  // The server's name in URLs, and where to connect to if that is not the same.
  std::string base_url_;
  std::string connect_to_;
  RateLimit rate_limit_;
  HttpClient http_;
};

}  // namespace adaptdl::kube

#endif  // ADAPTDL_LIBS_KUBE_CLIENT_SESSION_H_
