#include "services/supervisor/kubernetes/webhook/admission_webhook.h"

#include <string>
#include <utility>

#include "services/supervisor/kubernetes/webhook/template_trial.h"

namespace adaptdl::supervisor {
namespace {

// Reviews that are answered at a time: each waits for the API server.
constexpr int kThreads = 4;
// The API server gives a webhook ten seconds by default, and users wait for it.
constexpr absl::Duration kTrialPatience = absl::Seconds(3);
constexpr absl::Duration kPeriod = absl::Seconds(1);

}  // namespace

absl::StatusOr<std::unique_ptr<AdmissionWebhook>> AdmissionWebhook::Start(
    const AdmissionWebhookOptions& options, const kube::AccessOptions& access, const Clock* clock) {
  std::unique_ptr<AdmissionWebhook> webhook(new AdmissionWebhook(clock));
  absl::StatusOr<kube::Access> found = kube::FindAccess(access);
  if (!found.ok()) return found.status();
  kube::SessionOptions session;
  session.user_agent = "adaptdl-supervisor-webhook";
  session.patience = kTrialPatience;
  session.timeout = kTrialPatience;
  absl::StatusOr<std::unique_ptr<kube::Session>> made =
      kube::Session::Create(*std::move(found), std::move(session));
  if (!made.ok()) return made.status();
  webhook->session_ = *std::move(made);
  webhook->client_ = std::make_unique<kube::Client>(webhook->session_.get());
  webhook->executor_ = std::make_unique<Executor>(kThreads, kThreads, &webhook->invariants_);
  AdmissionRules rules;
  rules.try_template = [client = webhook->client_.get()](const std::string& name_space,
                                                         const kube::Json& pod_template) {
    return TryTemplate(*client, name_space, pod_template);
  };
  rules.operator_name = options.operator_name;
  absl::StatusOr<std::unique_ptr<WebhookServer>> server =
      WebhookServer::Start(options.server, std::move(rules), webhook->executor_.get());
  if (!server.ok()) return server.status();
  webhook->server_ = *std::move(server);
  webhook->thread_ = std::thread([webhook = webhook.get()] { webhook->Loop(); });
  return webhook;
}

AdmissionWebhook::~AdmissionWebhook() {
  {
    MutexLock lock(&mutex_);
    ended_ = true;
    ended_changed_.SignalAll();
  }
  if (thread_.joinable()) thread_.join();
  // Reviews that are under way use the client.
  server_ = nullptr;
  executor_ = nullptr;
}

void AdmissionWebhook::Loop() {
  MutexLock lock(&mutex_);
  while (!ended_) {
    server_->Step(clock_.Steady());
    ended_changed_.WaitFor(&mutex_, kPeriod);
  }
}

}  // namespace adaptdl::supervisor
