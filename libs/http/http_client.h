// HTTP(S) calls, each on the thread that makes it, over connections that are kept for the next one.
//
//   HttpClient http({.tls = {.ca_pem = ca}});
//   const auto answer = http.Send({.method = "GET", .url = "https://10.0.0.1/healthz"}, stop);
//
// A request with a body is sent once at most. One without may be sent again where a kept connection is cut
// before anything is answered. Redirects are not followed, so that nobody is handed credentials that were meant for somebody else. As with
// other tools, HTTPS_PROXY and NO_PROXY count.
//
// Errors: CANCELLED (a stop was requested), DEADLINE_EXCEEDED (the request's timeout), UNAUTHENTICATED (the
// peer's certificate, or ours), INVALID_ARGUMENT (the URL), OUT_OF_RANGE (the body, or the header, is too large), UNAVAILABLE
// (everything else that may happen on the way; of NotConnected() is known that the request was not sent). Any
// status that a server answers is an answer and no error.
//
// A stop request ends a call at once, unless the server's name is being looked up: that has to end first.
//
// Thread-safe. As many connections are open as there are calls at a time.

#ifndef ADAPTDL_LIBS_HTTP_HTTP_CLIENT_H_
#define ADAPTDL_LIBS_HTTP_HTTP_CLIENT_H_

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"

namespace adaptdl {

// How the two ends know each other. PEM texts; empty: none, or for `ca_pem` the system's authorities.
struct HttpTls {
  std::string ca_pem = {};
  std::string certificate_pem = {};
  std::string key_pem = {};
  // Whether any certificate of the server will do. Only where a person has asked for it.
  bool insecure = false;
};

struct HttpRequest {
  std::string method = "GET";
  std::string url;
  // "Name: value" each.
  std::vector<std::string> headers = {};
  std::string body = {};
  // Where to connect to, "host:port", if that is not what the URL says: servers that are reached by another
  // name than the one in their certificate.
  std::string connect_to = {};
  // Of a proxy. Empty: what the environment says.
  std::string proxy_url = {};
  // Through no proxy, whatever the environment says: what only this machine reaches, as the services of a cloud that
  // tell it who it is.
  bool direct = false;
  HttpTls tls = {};
  // Until the end of the answer.
  absl::Duration timeout = absl::Seconds(30);
};

struct HttpResponse {
  int status = 0;
  std::string body;
  // The answer's header fields, by names in lower case; of those that come several times, the last.
  std::map<std::string, std::string> headers;
  // The header Retry-After.
  std::optional<absl::Duration> retry_after;
};

struct HttpClientOptions {
  std::string user_agent = "adaptdl";
  absl::Duration connect_timeout = absl::Seconds(10);
  // A connection whose peer acknowledges nothing for so long is cut, also while nothing is to be sent.
  absl::Duration dead_peer_timeout = absl::Seconds(30);
  size_t max_body_bytes = size_t{256} << 20;
  // Connections that are kept.
  size_t max_idle = 16;
};

class CurlConnection;

class HttpClient {
 public:
  // Takes a part of the body. An error ends the call with it.
  using Sink = std::function<absl::Status(absl::string_view part)>;

  explicit HttpClient(HttpClientOptions options = {});
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  absl::StatusOr<HttpResponse> Send(const HttpRequest& request, const std::stop_token& stop = {});

  // As above, but the body of an answer of success is handed to `sink` as it comes, however large.
  absl::StatusOr<HttpResponse> Stream(const HttpRequest& request, const Sink& sink,
                                      const std::stop_token& stop = {});

 private:
  absl::StatusOr<HttpResponse> Run(const HttpRequest& request, const Sink* sink, const std::stop_token& stop);
  std::unique_ptr<CurlConnection> Take();
  void GiveBack(std::unique_ptr<CurlConnection> connection);

  const HttpClientOptions options_;
  Mutex mutex_;
  std::vector<std::unique_ptr<CurlConnection>> idle_ ABSL_GUARDED_BY(mutex_);
};

// Whether the call failed before anything of it was sent.
bool NotConnected(const absl::Status& status);

}  // namespace adaptdl

#endif  // ADAPTDL_LIBS_HTTP_HTTP_CLIENT_H_
