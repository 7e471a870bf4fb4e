// Where pods may be placed, as fields of a pod and of a node. Pure functions; thread-safe.

#ifndef ADAPTDL_LIBS_KUBEJOBS_PLACEMENT_H_
#define ADAPTDL_LIBS_KUBEJOBS_PLACEMENT_H_

#include <vector>

#include "absl/status/statusor.h"
#include "adaptdl/v1/placement.pb.h"
#include "libs/kube/json/json.h"

namespace adaptdl::kubejobs {

// nodeSelector, the required part of affinity.nodeAffinity, and tolerations. INVALID_ARGUMENT names the field.
absl::StatusOr<v1::Placement> PlacementOf(const kube::Json& pod_spec);
// Adds these to a pod that has none of them.
void PutPlacement(const v1::Placement& placement, kube::Json* pod_spec);

// Adds what replicas bear besides what their template says: the taint of nodes that are AdaptDL's alone
// (petuum.com/nodegroup=adaptdl, of whatever effect).
void AddOurTolerations(kube::Json* pod_spec);

// Of a node. Effects that nobody knows are left out.
std::vector<v1::Taint> TaintsOf(const kube::Json& node);

}  // namespace adaptdl::kubejobs

#endif  // ADAPTDL_LIBS_KUBEJOBS_PLACEMENT_H_
