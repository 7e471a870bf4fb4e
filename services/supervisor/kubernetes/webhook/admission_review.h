// Answers an AdmissionReview (admission.k8s.io/v1) about an AdaptDLJob: the rules that the schema can't say, and
// those that it says too, with a text that names field, value and remedy.
//
//   created   the specification is valid; the API server takes its pod template (a dry run)
//   changed   the same, and nothing that can't change has; an object that is being deleted, or whose specification
//             is as before, always passes
//   /status   by the operator alone
//
// Pure but for what it is given; thread-safe if that is.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_WEBHOOK_ADMISSION_REVIEW_H_
#define ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_WEBHOOK_ADMISSION_REVIEW_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/kube/json/json.h"

namespace adaptdl::supervisor {

struct AdmissionRules {
  // Whether the API server would take pods of this template in the namespace. INVALID_ARGUMENT,
  // PERMISSION_DENIED: no, in its words. Other errors: it can't be told now, and nothing is refused for that: the
  // job's own pods will tell.
  std::function<absl::Status(const std::string& name_space, const kube::Json& pod_template)> try_template;
  // Who writes statuses: "system:serviceaccount:adaptdl:adaptdl-supervisor". Empty: not known, and anybody may.
  std::string operator_name = {};
};

// The review with its answer. INVALID_ARGUMENT: it is none.
absl::StatusOr<kube::Json> Answer(const kube::Json& review, const AdmissionRules& rules);

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_WEBHOOK_ADMISSION_REVIEW_H_
