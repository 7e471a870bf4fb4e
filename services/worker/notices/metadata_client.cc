#include "services/worker/notices/metadata_client.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/base/utf8.h"

namespace adaptdl::worker {
namespace {

// The longest that is asked for is Azure's list of events, of a few hundred bytes each.
constexpr size_t kMaxAnswer = 64 << 10;

std::string WithoutSlash(absl::string_view url) {
  absl::ConsumeSuffix(&url, "/");
  return std::string(url);
}

HttpClientOptions OptionsFor(absl::Duration timeout) {
  HttpClientOptions options;
  options.user_agent = "adaptdl-worker";
  options.connect_timeout = timeout;
  options.max_body_bytes = kMaxAnswer;
  options.max_idle = 1;
  return options;
}

}  // namespace

MetadataClient::MetadataClient(std::string url, absl::Duration timeout)
    : url_(WithoutSlash(url)), timeout_(timeout), http_(OptionsFor(timeout)) {}

absl::StatusOr<std::string> MetadataClient::Get(absl::string_view path,
                                                const std::vector<std::string>& headers,
                                                const std::stop_token& stop) {
  return Send("GET", path, headers, stop);
}

absl::StatusOr<std::string> MetadataClient::Put(absl::string_view path,
                                                const std::vector<std::string>& headers,
                                                const std::stop_token& stop) {
  return Send("PUT", path, headers, stop);
}

absl::StatusOr<std::string> MetadataClient::Send(const std::string& method, absl::string_view path,
                                                 const std::vector<std::string>& headers,
                                                 const std::stop_token& stop) {
  HttpRequest request;
  request.method = method;
  request.url = absl::StrCat(url_, path);
  request.headers = headers;
  request.direct = true;
  request.timeout = timeout_;
  absl::StatusOr<HttpResponse> response = http_.Send(request, stop);
  const auto error = [&](absl::StatusCode code, absl::string_view what) {
    return absl::Status(code, absl::StrCat(method, " ", request.url, ": ", what));
  };
  if (!response.ok()) return error(response.status().code(), response.status().message());
  const int status = response->status;
  if (status == 404) return error(absl::StatusCode::kNotFound, "there is none");
  if (status == 401) return error(absl::StatusCode::kUnauthenticated, "the token does not count");
  if (status != 200) return error(absl::StatusCode::kUnavailable, absl::StrCat("answered ", status));
  if (!IsUtf8(response->body)) {
    return error(absl::StatusCode::kInvalidArgument, "answered what is no text");
  }
  return std::move(response->body);
}

}  // namespace adaptdl::worker
