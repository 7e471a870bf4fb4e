#include "services/supervisor/kubernetes/webhook/webhook_server.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/file.h"
#include "libs/kube/json/json.h"
#include "libs/service/log.h"

namespace adaptdl::supervisor {
namespace {

// A job has at most 256 KiB of specification, and comes twice in a review of a change, with metadata.
constexpr size_t kMaxReviewBytes = size_t{4} << 20;
constexpr size_t kMaxCertificateBytes = size_t{1} << 20;
constexpr absl::Duration kLookPeriod = absl::Seconds(10);

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
  std::unique_ptr<WebhookServer> webhook(new WebhookServer(options, std::move(rules), executor));
  const absl::StatusOr<Certificate> certificate = webhook->ReadCertificate();
  if (!certificate.ok()) return certificate.status();
  if (const absl::Status status = webhook->Serve(*certificate); !status.ok()) return status;
  // Its successors listen on the port that this one was given.
  webhook->options_.listen = webhook->address();
  return webhook;
}

absl::StatusOr<WebhookServer::Certificate> WebhookServer::ReadCertificate() const {
  absl::StatusOr<std::string> chain = ReadWholeFile(options_.certificate_file, kMaxCertificateBytes);
  if (!chain.ok()) return chain.status();
  absl::StatusOr<std::string> key = ReadWholeFile(options_.key_file, kMaxCertificateBytes);
  if (!key.ok()) return key.status();
  return Certificate{*std::move(chain), *std::move(key)};
}

absl::Status WebhookServer::Serve(const Certificate& certificate) {
  httpd::HttpServerOptions options;
  options.listen = options_.listen;
  options.flag = "--webhook-listen";
  options.tls_certificate = certificate.chain;
  options.tls_key = certificate.key;
  options.shares_address = true;
  options.max_body_bytes = kMaxReviewBytes;
  absl::StatusOr<std::unique_ptr<httpd::HttpServer>> server = httpd::HttpServer::Start(
      options, [this](const httpd::HttpRequest& request, std::shared_ptr<httpd::HttpExchange> exchange) {
        Handle(request, std::move(exchange));
      });
  if (!server.ok()) return server.status();
  certificate_ = certificate;
  server_ = *std::move(server);
  return absl::OkStatus();
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

void WebhookServer::Step(absl::Time now) {
  server_->Step(now);
  if (now < next_look_) return;
  next_look_ = now + kLookPeriod;
  const absl::StatusOr<Certificate> certificate = ReadCertificate();
  absl::Status status = certificate.status();
  if (status.ok() && *certificate == certificate_) return;
  if (status.ok()) status = Serve(*certificate);
  if (status.ok()) {
    log::Info("the webhook has a new certificate", {{"file", options_.certificate_file}});
  } else {
    // The two files are replaced one after the other.
    log::Warning("the webhook's certificate can't be read; the one before stays in force",
                 {{"error", status.ToString()}});
  }
}

}  // namespace adaptdl::supervisor
