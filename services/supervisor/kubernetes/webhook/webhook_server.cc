#include "services/supervisor/kubernetes/webhook/webhook_server.h"

#include <memory>
#include <string>
#include <utility>

#include "libs/kube/json/json.h"

namespace adaptdl::supervisor {
namespace {

// A job has at most 256 KiB of specification, and comes twice in a review of a change, with metadata.
constexpr size_t kMaxReviewBytes = size_t{4} << 20;

httpd::HttpResponse Plain(int status, const std::string& text) { return {status, "text/plain", text + "\n"}; }

httpd::HttpResponse Reviewed(const std::string& body, const AdmissionRules& rules) {
  const absl::StatusOr<kube::Json> review = kube::ParseJson(body);
  if (!review.ok()) return Plain(400, std::string(review.status().message()));
  const absl::StatusOr<kube::Json> answer = Answer(*review, rules);
  if (!answer.ok()) return Plain(400, std::string(answer.status().message()));
  return {200, "application/json", kube::Dump(*answer)};
}

}  // namespace

absl::StatusOr<std::unique_ptr<WebhookServer>> WebhookServer::Start(const WebhookOptions& options,
                                                                    AdmissionRules rules,
                                                                    Executor* executor) {
  std::unique_ptr<WebhookServer> webhook(new WebhookServer(std::move(rules), executor));
  httpd::HttpServerOptions http;
  http.listen = options.listen;
  http.flag = "--webhook-listen";
  http.max_body_bytes = kMaxReviewBytes;
  absl::StatusOr<std::unique_ptr<httpd::CertifiedServer>> server = httpd::CertifiedServer::Start(
      http, {options.certificate_file, options.key_file},
      [w = webhook.get()](const httpd::HttpRequest& request, std::shared_ptr<httpd::HttpExchange> exchange) {
        w->Handle(request, std::move(exchange));
      });
  if (!server.ok()) return server.status();
  webhook->server_ = *std::move(server);
  return webhook;
}

void WebhookServer::Handle(const httpd::HttpRequest& request, std::shared_ptr<httpd::HttpExchange> exchange) {
  if (request.path == "/healthz") {
    exchange->Answer(Plain(200, "ok"));
  } else if (request.path != "/validate") {
    exchange->Answer(Plain(404, "there are /validate and /healthz"));
  } else if (request.method != "POST") {
    exchange->Answer(Plain(405, "POST an AdmissionReview"));
  } else {
    executor_.Post([body = request.body, rules = rules_, exchange = std::move(exchange)] {
      exchange->Answer(Reviewed(body, *rules));
    });
  }
}

}  // namespace adaptdl::supervisor
