// AdaptDLQuota objects: what the jobs of a namespace may have together (v1::NamespaceQuota).
//
//   spec: {gpus, weight, jobs, submissionsPerMinute}
//
// Plain functions; thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_STORE_QUOTA_OBJECT_H_
#define ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_STORE_QUOTA_OBJECT_H_

#include "absl/status/statusor.h"
#include "adaptdl/v1/quota_service.pb.h"
#include "libs/kube/json/json.h"

namespace adaptdl::supervisor {

kube::Json QuotaObject(const v1::NamespaceQuota& quota);

// INVALID_ARGUMENT names the field.
absl::StatusOr<v1::NamespaceQuota> ReadQuota(const kube::Json& object);

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_STORE_QUOTA_OBJECT_H_
