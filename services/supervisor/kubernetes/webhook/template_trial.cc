#include "services/supervisor/kubernetes/webhook/template_trial.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "libs/kube/client/reviews.h"

namespace adaptdl::supervisor {
absl::Status TryTemplate(const kube::Client& client, const std::string& name_space,
                         const kube::Json& pod_template) {
  const kube::Target target = kube::Collection(kube::PodTemplates(), name_space);
  const kube::Json object = {{"apiVersion", "v1"},
                             {"kind", "PodTemplate"},
                             {"metadata", {{"generateName", "adaptdl-trial-"}, {"namespace", name_space}}},
                             {"template", pod_template}};
  const absl::Status tried =
      client.Create(target, object, {.field_manager = "adaptdl-webhook", .dry_run = true, .strict = false})
          .status();
  if (!absl::IsPermissionDenied(tried)) return tried;
  // Rules of the cluster about pods, and what we lack ourselves, are refused alike.
  const absl::StatusOr<kube::AccessAnswer> may = kube::ReviewOwnAccess(client, "create", target);
  if (may.ok() && may->allowed) return tried;
  return absl::UnavailableError(absl::StrCat("the supervisor may not try pod templates: ", tried.message(),
                                             "; let its service account create podtemplates"));
}

}  // namespace adaptdl::supervisor
