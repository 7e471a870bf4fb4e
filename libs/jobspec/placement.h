// Which nodes a replica may be placed on (v1::Placement), by the rules of Kubernetes' scheduler: the node selector, the
// required node affinity, and the taints NoSchedule and NoExecute; and by the type of their GPUs. Pure functions;
// thread-safe.

#ifndef ADAPTDL_LIBS_JOBSPEC_PLACEMENT_H_
#define ADAPTDL_LIBS_JOBSPEC_PLACEMENT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "adaptdl/v1/node.pb.h"
#include "adaptdl/v1/placement.pb.h"

namespace adaptdl::jobspec {

// Key of a taint that the supervisor gives to a node that drains since it is likely to be taken away. Its jobs keep what
// they have there until there is room elsewhere.
inline constexpr char kLikelyToLeave[] = "adaptdl.petuum.com/likely-to-leave";

// Errors name the field "spec.template.placement.<...>".
absl::Status CheckPlacement(const v1::Placement& placement);
// At most 64 of them, each with a key and an effect.
absl::Status CheckTaints(absl::string_view field,
                         const google::protobuf::RepeatedPtrField<v1::Taint>& taints);

// "key=value:NoSchedule", "key:NoExecute". INVALID_ARGUMENT: it is none.
absl::StatusOr<v1::Taint> ParseTaint(absl::string_view text);
std::string Describe(const v1::Taint& taint);

// Whether the placement asks for anything of a node: not whether it bears taints.
bool AsksForNodes(const v1::Placement& placement);
// Whether the node takes such replicas, if it has the room.
bool Fits(const v1::Placement& placement, const v1::Node& node);
// Why it does not, for people: "has not the label disk=ssd". Empty: it does.
std::string WhyNot(const v1::Placement& placement, const v1::Node& node);
// What is asked for, for people: "the label disk=ssd". Empty: nothing but nodes without taints.
std::string Describe(const v1::Placement& placement);

}  // namespace adaptdl::jobspec

#endif  // ADAPTDL_LIBS_JOBSPEC_PLACEMENT_H_
