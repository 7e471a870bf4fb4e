// The supervisor's HTTPS server for people and their tools, --web-listen. Who asks for what is for the handlers to know; this
// finds the one for a path.
//
// Thread-safe; Step() is called by one thread.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_WEB_WEB_SERVER_H_
#define ADAPTDL_SERVICES_SUPERVISOR_WEB_WEB_SERVER_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/grpcpp.h"
#include "libs/httpd/certified_server.h"
#include "libs/httpd/http_server.h"

namespace adaptdl::supervisor {

struct WebOptions {
  // "host:port"; port 0: any free one. Empty: there is none.
  std::string listen;
  // Empty: plain HTTP, for servers that ask for no credentials.
  httpd::CertificateFiles certificate;
  // Whether the dashboard is served, with this channel to the supervisor's own services; callers' tokens are added to each
  // call.
  bool dashboard = false;
  std::shared_ptr<grpc::Channel> services = nullptr;
  // Jobs whose series a page of metrics has.
  size_t job_series = 10'000;
};

class WebServer {
 public:
  // By path; the first whose path it is counts, and one that ends with "/" is for all below it.
  using Handlers = std::vector<std::pair<std::string, httpd::HttpHandler>>;

  // Errors name the file or the address.
  static absl::StatusOr<std::unique_ptr<WebServer>> Start(const WebOptions& options, Handlers handlers);

  // "host:port", with the real port.
  std::string address() const { return https_ != nullptr ? https_->address() : http_->address(); }

  // Looks after connections, and for a new certificate.
  void Step(absl::Time now);

 private:
  explicit WebServer(Handlers handlers) : handlers_(std::move(handlers)) {}
  void Handle(const httpd::HttpRequest& request, std::shared_ptr<httpd::HttpExchange> exchange) const;

  const Handlers handlers_;
  // One of them.
  std::unique_ptr<httpd::CertifiedServer> https_;
  std::unique_ptr<httpd::HttpServer> http_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_WEB_WEB_SERVER_H_
