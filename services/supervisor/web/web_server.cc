#include "services/supervisor/web/web_server.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"

namespace adaptdl::supervisor {
namespace {

// Browsers keep some open; scrapers one.
constexpr int kMostConnections = 512;
constexpr int kMostConnectionsPerAddress = 128;

httpd::HttpResponse Plain(int status, const std::string& text) {
  return {status, "text/plain; charset=utf-8", text + "\n"};
}

}  // namespace

absl::StatusOr<std::unique_ptr<WebServer>> WebServer::Start(const WebOptions& options, Handlers handlers) {
  std::unique_ptr<WebServer> web(new WebServer(std::move(handlers)));
  httpd::HttpServerOptions http;
  http.listen = options.listen;
  http.flag = "--web-listen";
  http.max_connections = kMostConnections;
  http.max_connections_per_address = kMostConnectionsPerAddress;
  http.strangers.most = kMostConnectionsPerAddress;
  const auto handle = [w = web.get()](const httpd::HttpRequest& request,
                                      std::shared_ptr<httpd::HttpExchange> exchange) {
    w->Handle(request, std::move(exchange));
  };
  if (options.certificate.certificate.empty()) {
    absl::StatusOr<std::unique_ptr<httpd::HttpServer>> server = httpd::HttpServer::Start(http, handle);
    if (!server.ok()) return server.status();
    web->http_ = *std::move(server);
  } else {
    absl::StatusOr<std::unique_ptr<httpd::CertifiedServer>> server =
        httpd::CertifiedServer::Start(http, options.certificate, handle);
    if (!server.ok()) return server.status();
    web->https_ = *std::move(server);
  }
  return web;
}

void WebServer::Step(absl::Time now) {
  if (https_ != nullptr) https_->Step(now);
  if (http_ != nullptr) http_->Step(now);
}

void WebServer::Handle(const httpd::HttpRequest& request,
                       std::shared_ptr<httpd::HttpExchange> exchange) const {
  if (request.path == "/healthz") return exchange->Answer(Plain(200, "ok"));
  for (const auto& [path, handler] : handlers_) {
    const bool below = absl::EndsWith(path, "/") && absl::StartsWith(request.path, path);
    if (request.path == path || below) return handler(request, std::move(exchange));
  }
  exchange->Answer(Plain(404, "there is nothing here"));
}

}  // namespace adaptdl::supervisor
