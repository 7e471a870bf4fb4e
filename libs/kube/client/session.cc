#include "libs/kube/client/session.h"

#include <optional>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/base/backoff.h"
#include "libs/kube/client/errors.h"

namespace adaptdl::kube {
namespace {

absl::Status Stopped() { return absl::CancelledError("a stop was requested"); }

// "https://HOST:PORT/path" in its parts.
struct ServerUrl {
  std::string scheme;
  std::string authority;
  std::string path;
};

absl::StatusOr<ServerUrl> ParseServerUrl(const std::string& url) {
  const size_t scheme_end = url.find("://");
  if (!absl::StartsWith(url, "https://") && !absl::StartsWith(url, "http://")) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", url, "\" is no address of an API server; write https://HOST"));
  }
  const size_t begin = scheme_end + 3;
  const size_t end = std::min(url.find('/', begin), url.size());
  if (end == begin) return absl::InvalidArgumentError(absl::StrCat("\"", url, "\" names no host"));
  return ServerUrl{url.substr(0, scheme_end), url.substr(begin, end - begin), url.substr(end)};
}

bool HasPort(const std::string& authority) {
  const size_t colon = authority.rfind(':');
  return colon != std::string::npos && authority.find(']', colon) == std::string::npos;
}

// What became of a try.
struct Outcome {
  absl::Status status;
  // The server did nothing, and says when to come back.
  std::optional<absl::Duration> retry_after = std::nullopt;
};

Outcome OutcomeOf(const absl::StatusOr<HttpResponse>& response) {
  if (!response.ok()) return {response.status()};
  if (response->status / 100 == 2) return {absl::OkStatus()};
  const bool refused = response->status == 429 || response->status == 503;
  return {ErrorOfAnswer(response->status, response->body), refused ? response->retry_after : std::nullopt};
}

bool MayBeTriedAgain(const Outcome& outcome, bool reads) {
  if (outcome.retry_after.has_value() || NotConnected(outcome.status)) return true;
  return reads && (absl::IsUnavailable(outcome.status) || absl::IsInternal(outcome.status) ||
                   absl::IsDeadlineExceeded(outcome.status));
}

}  // namespace

Session::Session(Access access, SessionOptions options)
    : access_(std::move(access)),
      options_(std::move(options)),
      clock_(options_.clock == nullptr ? real_clock_ : *options_.clock),
      pauses_(options_.pauses == nullptr ? real_pauses_ : *options_.pauses),
      rate_limit_(options_.burst, options_.period, &clock_, &pauses_),
      http_({.user_agent = options_.user_agent}) {}

absl::StatusOr<std::unique_ptr<Session>> Session::Create(Access access, SessionOptions options) {
  const absl::StatusOr<ServerUrl> url = ParseServerUrl(access.server);
  if (!url.ok()) return url.status();
  std::unique_ptr<Session> session(new Session(std::move(access), std::move(options)));
  const std::string port = url->scheme == "https" ? ":443" : ":80";
  const std::string real = absl::StrCat(url->authority, HasPort(url->authority) ? "" : port);
  const std::string& name = session->access_.tls_server_name;
  session->connect_to_ = name.empty() ? "" : real;
  session->base_url_ = absl::StrCat(url->scheme, "://", name.empty() ? real : name, url->path);
  return session;
}

absl::StatusOr<std::string> Session::Call(const ApiRequest& request, const std::stop_token& stop) {
  return TryUntilDone(request, nullptr, stop);
}

absl::Status Session::Stream(const ApiRequest& request, const HttpClient::Sink& sink,
                             const std::stop_token& stop) {
  return TryUntilDone(request, &sink, stop).status();
}

absl::StatusOr<std::string> Session::TryUntilDone(const ApiRequest& request, const HttpClient::Sink* sink,
                                                  const std::stop_token& stop) {
  const absl::Time give_up = clock_.Steady() + options_.patience;
  // What has begun to stream can't be begun again.
  const bool reads = request.method == "GET" && sink == nullptr;
  Backoff backoff(options_.first_pause, options_.longest_pause);
  bool renewed = false;
  while (true) {
    if (!rate_limit_.Await(stop)) return Stopped();
    const absl::StatusOr<Credentials> credentials = access_.credentials->Get(stop);
    if (!credentials.ok()) return credentials.status();
    absl::StatusOr<HttpResponse> response = Try(request, *credentials, sink, stop);
    const Outcome outcome = OutcomeOf(response);
    if (outcome.status.ok()) return std::move(response->body);
    if (response.ok() && response->status == 401 && !renewed) {
      access_.credentials->Refused(*credentials);
      renewed = true;
      continue;
    }
    if (!MayBeTriedAgain(outcome, reads)) return outcome.status;
    const absl::Duration pause = outcome.retry_after.value_or(backoff.Next());
    if (clock_.Steady() + pause > give_up) return outcome.status;
    if (!pauses_.WaitFor(pause, stop)) return Stopped();
  }
}

absl::StatusOr<HttpResponse> Session::Try(const ApiRequest& request, const Credentials& credentials,
                                          const HttpClient::Sink* sink, const std::stop_token& stop) {
  const absl::StatusOr<HttpRequest> http_request = MakeRequest(request, credentials);
  if (!http_request.ok()) return http_request.status();
  if (request.method != "GET" && options_.may_change != nullptr && !options_.may_change())
    return absl::UnavailableError("nothing may be changed now: this process does not lead");
  const absl::Time begin = clock_.Steady();
  absl::StatusOr<HttpResponse> response =
      sink == nullptr ? http_.Send(*http_request, stop) : http_.Stream(*http_request, *sink, stop);
  if (options_.observe != nullptr) {
    options_.observe({request, response.ok() ? response->status : 0, clock_.Steady() - begin});
  }
  return response;
}

absl::StatusOr<HttpRequest> Session::MakeRequest(const ApiRequest& request,
                                                 const Credentials& credentials) const {
  absl::StatusOr<std::string> ca = access_.ca.Read();
  if (!ca.ok()) return ca.status();
  HttpRequest made = {.method = request.method,
                      .url = absl::StrCat(base_url_, request.target.Path()),
                      .headers = {"Accept: application/json, */*"},
                      .body = request.body,
                      .connect_to = connect_to_,
                      .proxy_url = access_.proxy_url,
                      .tls = {.ca_pem = *std::move(ca),
                              .certificate_pem = credentials.certificate_pem,
                              .key_pem = credentials.key_pem,
                              .insecure = access_.insecure},
                      .timeout = request.timeout > absl::ZeroDuration() ? request.timeout : options_.timeout};
  char separator = '?';
  for (const auto& [name, value] : request.query) {
    absl::StrAppend(&made.url, std::string(1, separator), name, "=", Escape(value));
    separator = '&';
  }
  if (!request.body.empty()) made.headers.push_back(absl::StrCat("Content-Type: ", request.content_type));
  if (!credentials.bearer_token.empty()) {
    made.headers.push_back(absl::StrCat("Authorization: Bearer ", credentials.bearer_token));
  } else if (!credentials.username.empty()) {
    made.headers.push_back(
        absl::StrCat("Authorization: Basic ",
                     absl::Base64Escape(absl::StrCat(credentials.username, ":", credentials.password))));
  }
  return made;
}

}  // namespace adaptdl::kube
