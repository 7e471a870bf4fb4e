#include "libs/http/http_client.h"

#include <utility>

#include "libs/http/curl_connection.h"

namespace adaptdl {

HttpClient::HttpClient(HttpClientOptions options) : options_(std::move(options)) {}

HttpClient::~HttpClient() = default;

absl::StatusOr<HttpResponse> HttpClient::Send(const HttpRequest& request, const std::stop_token& stop) {
  return Run(request, nullptr, stop);
}

absl::StatusOr<HttpResponse> HttpClient::Stream(const HttpRequest& request, const Sink& sink,
                                                const std::stop_token& stop) {
  return Run(request, &sink, stop);
}

absl::StatusOr<HttpResponse> HttpClient::Run(const HttpRequest& request, const Sink* sink,
                                             const std::stop_token& stop) {
  std::unique_ptr<CurlConnection> connection = Take();
  absl::StatusOr<HttpResponse> response = connection->Run(request, sink, stop);
  GiveBack(std::move(connection));
  return response;
}

std::unique_ptr<CurlConnection> HttpClient::Take() {
  MutexLock lock(&mutex_);
  if (idle_.empty()) return std::make_unique<CurlConnection>(options_);
  std::unique_ptr<CurlConnection> connection = std::move(idle_.back());
  idle_.pop_back();
  return connection;
}

void HttpClient::GiveBack(std::unique_ptr<CurlConnection> connection) {
  MutexLock lock(&mutex_);
  if (idle_.size() < options_.max_idle) idle_.push_back(std::move(connection));
}

}  // namespace adaptdl
