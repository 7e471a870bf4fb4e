#include "services/supervisor/kubernetes/webhook/admission_review.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "libs/jobspec/job_spec.h"
#include "libs/kube/json/object.h"
#include "libs/kubejobs/job_object.h"

namespace adaptdl::supervisor {
namespace {

using kube::At;
using kube::Json;
using kube::TextAt;

constexpr char kReviewVersion[] = "admission.k8s.io/v1";

// As the API server says it of its own refusals.
struct Refusal {
  int code = 422;
  const char* reason = "Invalid";
};

absl::Status CheckTemplate(const Json& object, const AdmissionRules& rules) {
  const absl::Status taken =
      rules.try_template(TextAt(object, {"metadata", "namespace"}), At(object, {"spec", "template"}));
  if (!absl::IsInvalidArgument(taken) && !absl::IsPermissionDenied(taken)) return absl::OkStatus();
  return absl::Status(taken.code(), absl::StrCat("spec.template: ", taken.message()));
}

absl::Status CheckCreated(const Json& object, const AdmissionRules& rules) {
  const absl::StatusOr<v1::Job> job = kubejobs::JobFromObject(object);
  return job.ok() ? CheckTemplate(object, rules) : job.status();
}

absl::Status CheckChanged(const Json& before, const Json& after) {
  if (kube::IsBeingDeleted(after) || At(before, {"spec"}) == At(after, {"spec"})) return absl::OkStatus();
  if (At(before, {"spec", "template"}) != At(after, {"spec", "template"})) {
    return absl::PermissionDeniedError(
        "spec.template: can't change; delete the job, and make another one with the new template");
  }
  const absl::StatusOr<v1::Job> job = kubejobs::JobFromObject(after);
  if (!job.ok()) return job.status();
  // What was let in by an older version, or without this webhook, may be made right.
  const absl::StatusOr<v1::Job> former = kubejobs::JobFromObject(before);
  return former.ok() ? jobspec::CheckUpdate(*former, *job) : absl::OkStatus();
}

absl::Status CheckStatusWrite(const Json& request, const AdmissionRules& rules) {
  const std::string who = TextAt(request, {"userInfo", "username"});
  if (rules.operator_name.empty() || who == rules.operator_name) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat("status: is written by ", rules.operator_name,
                                                  " alone, not by ", who, "; change the spec instead"));
}

absl::Status Check(const Json& request, const AdmissionRules& rules) {
  // Nothing else is sent here but by mistake, and none of it is to be held up by us.
  if (TextAt(request, {"kind", "kind"}) != "AdaptDLJob") return absl::OkStatus();
  const std::string operation = TextAt(request, {"operation"});
  const std::string subresource = TextAt(request, {"subResource"});
  if (subresource == "status") return CheckStatusWrite(request, rules);
  const Json& object = At(request, {"object"});
  if (operation == "CREATE") return CheckCreated(object, rules);
  if (operation == "UPDATE") return CheckChanged(At(request, {"oldObject"}), object);
  return absl::OkStatus();
}

Json Response(const std::string& uid, const absl::Status& status) {
  Json response = {{"uid", uid}, {"allowed", status.ok()}};
  if (status.ok()) return response;
  const Refusal refusal = absl::IsPermissionDenied(status) ? Refusal{403, "Forbidden"} : Refusal{};
  response["status"] = {{"code", refusal.code},
                        {"reason", refusal.reason},
                        {"status", "Failure"},
                        {"message", std::string(status.message())}};
  return response;
}

}  // namespace

absl::StatusOr<Json> Answer(const Json& review, const AdmissionRules& rules) {
  const Json& request = At(review, {"request"});
  const std::string uid = TextAt(request, {"uid"});
  if (TextAt(review, {"kind"}) != "AdmissionReview" || TextAt(review, {"apiVersion"}) != kReviewVersion ||
      uid.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("not an AdmissionReview of ", kReviewVersion, " with a request"));
  }
  return Json{{"apiVersion", kReviewVersion},
              {"kind", "AdmissionReview"},
              {"response", Response(uid, Check(request, rules))}};
}

}  // namespace adaptdl::supervisor
