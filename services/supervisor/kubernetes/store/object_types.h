// The types of objects that the supervisor keeps its state in. Plain functions; thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_STORE_OBJECT_TYPES_H_
#define ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_STORE_OBJECT_TYPES_H_

#include "libs/kube/client/resource_type.h"
#include "libs/kubejobs/names.h"

namespace adaptdl::supervisor {

using kubejobs::kFieldManager;

inline const kube::ResourceType& AdaptDLJobs() {
  static const auto* const type =
      new kube::ResourceType{kubejobs::kGroup, kubejobs::kVersion, kubejobs::kJobPlural, kubejobs::kJobKind};
  return *type;
}

// One per namespace, with this name.
inline constexpr char kQuotaName[] = "quota";
inline const kube::ResourceType& AdaptDLQuotas() {
  static const auto* const type = new kube::ResourceType{kubejobs::kGroup, kubejobs::kVersion,
                                                         kubejobs::kQuotaPlural, kubejobs::kQuotaKind};
  return *type;
}

inline const kube::ResourceType& Events() {
  static const auto* const type = new kube::ResourceType{"events.k8s.io", "v1", "events", "Event"};
  return *type;
}

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_STORE_OBJECT_TYPES_H_
