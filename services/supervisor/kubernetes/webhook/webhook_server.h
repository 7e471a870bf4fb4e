// The webhook over HTTPS:
//
//   POST /validate   an AdmissionReview, answered by admission_review.h
//   GET /healthz     200
//
// The certificate and its key are read again when they change. Thread-safe; Step() is called by one thread.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_WEBHOOK_WEBHOOK_SERVER_H_
#define ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_WEBHOOK_WEBHOOK_SERVER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/httpd/certified_server.h"
#include "services/supervisor/calls/executor.h"
#include "services/supervisor/kubernetes/webhook/admission_review.h"

namespace adaptdl::supervisor {

struct WebhookOptions {
  // "host:port"; port 0: any free one.
  std::string listen;
  // Files in PEM.
  std::string certificate_file;
  std::string key_file;
};

class WebhookServer {
 public:
  // `executor`: where reviews are answered, as they ask the API server; outlives it, as does what `rules` use.
  // Errors name the file or the address.
  static absl::StatusOr<std::unique_ptr<WebhookServer>> Start(const WebhookOptions& options,
                                                              AdmissionRules rules, Executor* executor);

  // With the real port.
  std::string address() const { return server_->address(); }

  // Looks after connections, and for a new certificate.
  void Step(absl::Time now) { server_->Step(now); }

 private:
  WebhookServer(AdmissionRules rules, Executor* executor)
      : rules_(std::make_shared<const AdmissionRules>(std::move(rules))), executor_(*executor) {}

  void Handle(const httpd::HttpRequest& request, std::shared_ptr<httpd::HttpExchange> exchange);

  // Shared with reviews that go on when the server ends.
  const std::shared_ptr<const AdmissionRules> rules_;
  Executor& executor_;
  std::unique_ptr<httpd::CertifiedServer> server_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_WEBHOOK_WEBHOOK_SERVER_H_
