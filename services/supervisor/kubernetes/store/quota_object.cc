#include "services/supervisor/kubernetes/store/quota_object.h"

#include <cstdint>

#include "libs/kube/json/object.h"
#include "services/supervisor/kubernetes/store/fields.h"
#include "services/supervisor/kubernetes/store/object_types.h"

namespace adaptdl::supervisor {
namespace {

// As of calls (SetQuotaRequest).
constexpr int64_t kMostOfAny = 1 << 20;
constexpr double kLeastWeight = 0.001;
constexpr double kMostWeight = 1000;

}  // namespace

kube::Json QuotaObject(const v1::NamespaceQuota& quota) {
  return {{"apiVersion", AdaptDLQuotas().ApiVersion()},
          {"kind", AdaptDLQuotas().kind},
          {"metadata", {{"namespace", quota.namespace_()}, {"name", kQuotaName}}},
          {"spec",
           {{"gpus", quota.gpus()},
            {"weight", quota.weight()},
            {"jobs", quota.jobs()},
            {"submissionsPerMinute", quota.submissions_per_minute()}}}};
}

absl::StatusOr<v1::NamespaceQuota> ReadQuota(const kube::Json& object) {
  absl::Status status;
  v1::NamespaceQuota quota;
  quota.set_namespace_(kube::KeyOf(object).name_space);
  quota.set_weight(1);
  FieldReader fields(kube::At(object, {"spec"}), "spec", &status);
  quota.set_gpus(static_cast<int32_t>(fields.Integer("gpus", 0, kMostOfAny)));
  if (fields.Has("weight")) quota.set_weight(fields.Number("weight"));
  quota.set_jobs(static_cast<int32_t>(fields.Integer("jobs", 0, kMostOfAny)));
  quota.set_submissions_per_minute(
      static_cast<int32_t>(fields.Integer("submissionsPerMinute", 0, kMostOfAny)));
  if (!(quota.weight() >= kLeastWeight && quota.weight() <= kMostWeight)) {
    fields.Fail("weight", "is not between 0.001 and 1000");
  }
  if (!status.ok()) return status;
  return quota;
}

}  // namespace adaptdl::supervisor
