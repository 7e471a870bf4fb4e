// The webhook of this supervisor, whether it leads or stands by: the server, the threads that answer, and the calls to the API
// server by which pod templates are tried.
//
// It begins with Start() and ends with its destructor; not thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_WEBHOOK_ADMISSION_WEBHOOK_H_
#define ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_WEBHOOK_ADMISSION_WEBHOOK_H_

#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "libs/base/clock.h"
#include "libs/base/mutex.h"
#include "libs/kube/access/access.h"
#include "libs/kube/client/client.h"
#include "libs/kube/client/session.h"
#include "services/supervisor/calls/executor.h"
#include "services/supervisor/kubernetes/webhook/webhook_server.h"
#include "services/supervisor/state/invariants.h"

namespace adaptdl::supervisor {

struct AdmissionWebhookOptions {
  // `listen` empty: there is none.
  WebhookOptions server = {};
  // Who may write statuses. Empty: whoever the cluster's roles let.
  std::string operator_name = {};
};

class AdmissionWebhook {
 public:
  // The clock outlives it. Errors name the flag, the file or the address.
  static absl::StatusOr<std::unique_ptr<AdmissionWebhook>> Start(const AdmissionWebhookOptions& options,
                                                                 const kube::AccessOptions& access,
                                                                 const Clock* clock);
  ~AdmissionWebhook();

  // With the real port.
  std::string address() const { return server_->address(); }

 private:
  explicit AdmissionWebhook(const Clock* clock) : clock_(*clock) {}
  // Looks after the server until the end.
  void Loop();

  const Clock& clock_;
  std::unique_ptr<kube::Session> session_;
  std::unique_ptr<kube::Client> client_;
  Invariants invariants_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<WebhookServer> server_;
  Mutex mutex_;
  CondVar ended_changed_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_WEBHOOK_ADMISSION_WEBHOOK_H_
