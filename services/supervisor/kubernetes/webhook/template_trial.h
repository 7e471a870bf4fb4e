// Whether the API server would take pods of a template: a PodTemplate is made of it, and not kept (a dry run), so that a
// wrong one is refused when the job comes and not when its first pod is to be made.
//
// Plain function; thread-safe, blocks for a call or two.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_WEBHOOK_TEMPLATE_TRIAL_H_
#define ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_WEBHOOK_TEMPLATE_TRIAL_H_

#include <string>

#include "absl/status/status.h"
#include "libs/kube/client/client.h"
#include "libs/kube/json/json.h"

namespace adaptdl::supervisor {

// INVALID_ARGUMENT, PERMISSION_DENIED: it would not, in its words. UNAVAILABLE and others: it can't be told, as when we
// may not make PodTemplates ourselves.
absl::Status TryTemplate(const kube::Client& client, const std::string& name_space,
                         const kube::Json& pod_template);

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_WEBHOOK_TEMPLATE_TRIAL_H_
