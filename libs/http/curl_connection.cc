#include "libs/http/curl_connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/http/no_sigpipe.h"

namespace adaptdl {
namespace {

// How long a transfer waits for its socket before it looks at its own timers: these wake it earlier.
constexpr int kPollMilliseconds = 60'000;
// Of an answer's header, its fields together.
constexpr size_t kMaxHeaderBytes = 128 << 10;
constexpr char kNotConnected[] = "adaptdl/not-connected";

// Handles are there unless memory is not: nothing sensible could follow.
void CheckThere(bool there) {
  if (!there) std::abort();
}

absl::StatusCode CodeOf(CURLcode code) {
  switch (code) {
    case CURLE_OPERATION_TIMEDOUT:
      return absl::StatusCode::kDeadlineExceeded;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_ISSUER_ERROR:
      return absl::StatusCode::kUnauthenticated;
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
      return absl::StatusCode::kInvalidArgument;
    default:
      return absl::StatusCode::kUnavailable;
  }
}

bool IsBeforeSending(CURLcode code) {
  return code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST ||
         code == CURLE_COULDNT_RESOLVE_PROXY || code == CURLE_SSL_CONNECT_ERROR;
}

}  // namespace

// What a call needs until its end.
struct CurlConnection::Call {
  CURL* easy;
  const HttpClient::Sink* sink;
  size_t max_body_bytes;
  absl::string_view unsent = {};
  List headers = {};
  List connect_to = {};
  HttpResponse response = {};
  size_t header_bytes = 0;
  // Why a part of the answer was refused.
  absl::Status refusal = {};
  char error[CURL_ERROR_SIZE] = {};

  static void Add(List* list, const std::string& text) {
    list->reset(curl_slist_append(list->release(), text.c_str()));
  }
  int Status() const {
    long status = 0;  // NOLINT(runtime/int): curl's type
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    return static_cast<int>(status);
  }
  // A line of the header, with its end.
  absl::Status TakeHeader(absl::string_view line) {
    header_bytes += line.size();
    if (header_bytes > kMaxHeaderBytes) {
      return absl::OutOfRangeError(
          absl::StrCat("the answer's header is larger than ", kMaxHeaderBytes, " bytes"));
    }
    // An answer may follow others, which only say that it comes: "100 Continue", that of a proxy.
    if (absl::StartsWith(line, "HTTP/")) response.headers.clear();
    const size_t colon = line.find(':');
    if (colon == absl::string_view::npos) return absl::OkStatus();
    response.headers[absl::AsciiStrToLower(line.substr(0, colon))] =
        std::string(absl::StripAsciiWhitespace(line.substr(colon + 1)));
    return absl::OkStatus();
  }
  absl::Status Take(absl::string_view part) {
    if (sink != nullptr && Status() / 100 == 2) return (*sink)(part);
    if (response.body.size() + part.size() > max_body_bytes) {
      return absl::OutOfRangeError(absl::StrCat("the answer is larger than ", max_body_bytes, " bytes"));
    }
    absl::StrAppend(&response.body, part);
    return absl::OkStatus();
  }
};

CurlConnection::CurlConnection(const HttpClientOptions& options) : options_(options) {
  static const CURLcode initialized = curl_global_init(CURL_GLOBAL_DEFAULT);
  CheckThere(initialized == CURLE_OK);
  multi_.reset(curl_multi_init());
  easy_.reset(curl_easy_init());
  CheckThere(multi_ != nullptr && easy_ != nullptr);
}

CurlConnection::~CurlConnection() {
  const NoSigpipe guard;  // TLS says goodbye
  easy_.reset();
  multi_.reset();
}

size_t CurlConnection::OnBody(char* data, size_t size, size_t count, void* call) {
  auto* self = static_cast<Call*>(call);
  self->refusal = self->Take({data, size * count});
  return self->refusal.ok() ? size * count : 0;
}

size_t CurlConnection::OnHeader(char* data, size_t size, size_t count, void* call) {
  auto* self = static_cast<Call*>(call);
  self->refusal = self->TakeHeader({data, size * count});
  return self->refusal.ok() ? size * count : 0;
}

size_t CurlConnection::OnUnsent(char* buffer, size_t size, size_t count, void* call) {
  auto* self = static_cast<Call*>(call);
  const size_t taken = self->unsent.copy(buffer, size * count);
  self->unsent.remove_prefix(taken);
  return taken;
}

// A peer that vanished without a word is noticed by the kernel, whether we wait for it or have sent something.
int CurlConnection::OnSocket(void* options, curl_socket_t socket, curlsocktype /*purpose*/) {
  const auto& timeout = static_cast<const HttpClientOptions*>(options)->dead_peer_timeout;
  const int milliseconds = static_cast<int>(absl::ToInt64Milliseconds(timeout));
  setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, sizeof(milliseconds));
  return CURL_SOCKOPT_OK;
}

void CurlConnection::SetUp(const HttpRequest& request, Call* call) {
  CURL* easy = easy_.get();
  curl_easy_setopt(easy, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  // One connection for a call: its end is the call's end, and no call waits for another.
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
  curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  if (!request.body.empty()) {
    // By a callback, which libcurl can't rewind: it would send a body again where a kept connection is cut
    // before the answer, and the server may have done what it says.
    call->unsent = request.body;
    curl_easy_setopt(easy, CURLOPT_POST, 1L);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    curl_easy_setopt(easy, CURLOPT_READFUNCTION, OnUnsent);
    curl_easy_setopt(easy, CURLOPT_READDATA, call);
  }
  Call::Add(&call->headers, "Expect:");  // no round trip before a large body
  for (const std::string& header : request.headers) Call::Add(&call->headers, header);
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, call->headers.get());
  curl_easy_setopt(easy, CURLOPT_USERAGENT, options_.user_agent.c_str());
  if (!request.connect_to.empty()) {
    Call::Add(&call->connect_to, absl::StrCat("::", request.connect_to));
    curl_easy_setopt(easy, CURLOPT_CONNECT_TO, call->connect_to.get());
  }
  if (!request.proxy_url.empty()) curl_easy_setopt(easy, CURLOPT_PROXY, request.proxy_url.c_str());
  if (request.direct) curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);  // no handlers of libcurl's own
  // Compressed parts of a stream would wait for each other.
  if (call->sink == nullptr) curl_easy_setopt(easy, CURLOPT_ACCEPT_ENCODING, "gzip");

  // NOLINTBEGIN(runtime/int): curl's type
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
                   static_cast<long>(absl::ToInt64Milliseconds(options_.connect_timeout)));
  if (request.timeout != absl::InfiniteDuration()) {
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(absl::ToInt64Milliseconds(request.timeout)));
  }
  curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
  const long probe = static_cast<long>(absl::ToInt64Seconds(options_.dead_peer_timeout) / 3);
  curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, probe);
  curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, probe);
  // NOLINTEND(runtime/int)
  curl_easy_setopt(easy, CURLOPT_SOCKOPTFUNCTION, OnSocket);
  curl_easy_setopt(easy, CURLOPT_SOCKOPTDATA, &options_);
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, OnHeader);
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, call);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, OnBody);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, call);
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, call->error);
  SetUpTls(request.tls);
}

void CurlConnection::SetUpTls(const HttpTls& tls) {
  const auto set = [this](CURLoption option, const std::string& pem) {
    if (pem.empty()) return;
    curl_blob blob = {const_cast<char*>(pem.data()), pem.size(), CURL_BLOB_COPY};
    curl_easy_setopt(easy_.get(), option, &blob);
  };
  set(CURLOPT_CAINFO_BLOB, tls.ca_pem);
  set(CURLOPT_SSLCERT_BLOB, tls.certificate_pem);
  set(CURLOPT_SSLKEY_BLOB, tls.key_pem);
  curl_easy_setopt(easy_.get(), CURLOPT_SSLCERTTYPE, "PEM");
  curl_easy_setopt(easy_.get(), CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  if (!tls.insecure) return;
  curl_easy_setopt(easy_.get(), CURLOPT_SSL_VERIFYPEER, 0L);
  curl_easy_setopt(easy_.get(), CURLOPT_SSL_VERIFYHOST, 0L);
}

absl::Status CurlConnection::Transfer(const std::stop_token& stop, Call* call) {
  // A wake-up that comes while nobody waits ends the next wait: none is lost.
  const std::stop_callback wake(stop, [this] { curl_multi_wakeup(multi_.get()); });
  int running = 1;
  while (running > 0) {
    if (stop.stop_requested()) return absl::CancelledError("a stop was requested");
    if (curl_multi_perform(multi_.get(), &running) != CURLM_OK) return absl::InternalError("libcurl failed");
    if (running > 0) curl_multi_poll(multi_.get(), nullptr, 0, kPollMilliseconds, nullptr);
  }
  int left = 0;
  const CURLMsg* message = curl_multi_info_read(multi_.get(), &left);
  if (message == nullptr) return absl::InternalError("libcurl lost a transfer");
  return message->data.result == CURLE_OK ? absl::OkStatus() : ErrorOf(message->data.result, *call);
}

absl::Status CurlConnection::ErrorOf(CURLcode code, const Call& call) {
  if (!call.refusal.ok()) return call.refusal;
  absl::Status status(CodeOf(code), call.error[0] != '\0' ? call.error : curl_easy_strerror(code));
  if (IsBeforeSending(code)) status.SetPayload(kNotConnected, absl::Cord());
  return status;
}

absl::StatusOr<HttpResponse> CurlConnection::Run(const HttpRequest& request, const HttpClient::Sink* sink,
                                                 const std::stop_token& stop) {
  const NoSigpipe guard;
  Call call{.easy = easy_.get(), .sink = sink, .max_body_bytes = options_.max_body_bytes};
  SetUp(request, &call);
  const absl::Cleanup tidy = [this] {
    // Ends a transfer that was not finished, with its connection; the handle forgets the call.
    curl_multi_remove_handle(multi_.get(), easy_.get());
    curl_easy_reset(easy_.get());
  };
  if (curl_multi_add_handle(multi_.get(), easy_.get()) != CURLM_OK) {
    return absl::InternalError("libcurl takes no transfer");
  }
  if (const absl::Status status = Transfer(stop, &call); !status.ok()) return status;
  call.response.status = call.Status();
  curl_off_t seconds = 0;
  curl_easy_getinfo(easy_.get(), CURLINFO_RETRY_AFTER, &seconds);
  if (seconds > 0) call.response.retry_after = absl::Seconds(seconds);
  return std::move(call.response);
}

bool NotConnected(const absl::Status& status) { return status.GetPayload(kNotConnected).has_value(); }

}  // namespace adaptdl
