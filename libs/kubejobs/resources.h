// What pods ask for and nodes offer, by the rules of Kubernetes' scheduler, in whole numbers by exact arithmetic
// (libs/jobfile/quantity.h). Pure functions; thread-safe.

#ifndef ADAPTDL_LIBS_KUBEJOBS_RESOURCES_H_
#define ADAPTDL_LIBS_KUBEJOBS_RESOURCES_H_

#include "absl/status/statusor.h"
#include "adaptdl/v1/resources.pb.h"
#include "libs/kube/json/json.h"

namespace adaptdl::kubejobs {

// Of one pod: of each kind the larger one of what its containers and sidecars ask for together and what an init
// container asks for beside the sidecars before it; its overhead, and one of "pods". What is limited and not requested
// is requested as limited. INVALID_ARGUMENT names the container and the resource.
absl::StatusOr<v1::Resources> PodRequest(const kube::Json& pod_spec);

// The pod with `defaults` ({"requests": {...}, "limits": {...}}) where its first container says nothing of that kind
// of resource, neither as request nor as limit.
kube::Json WithDefaultResources(kube::Json pod_spec, const kube::Json& defaults);

// What a node has for pods (status.allocatable). INVALID_ARGUMENT names the resource.
absl::StatusOr<v1::Resources> Allocatable(const kube::Json& node);

// `amounts` less `taken`; never below 0.
v1::Resources Less(const v1::Resources& amounts, const v1::Resources& taken);
// Both together.
v1::Resources Sum(const v1::Resources& a, const v1::Resources& b);

}  // namespace adaptdl::kubejobs

#endif  // ADAPTDL_LIBS_KUBEJOBS_RESOURCES_H_
