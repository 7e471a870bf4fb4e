// What keeps a pod from running: something that may pass by itself, such as a registry that does not answer, or not.
// How long to wait for that is its caller's to say.
//
// Plain functions; thread-safe. Pods are taken as they come: what is not as it should be reads as missing.

#ifndef ADAPTDL_LIBS_KUBEJOBS_HINDRANCE_H_
#define ADAPTDL_LIBS_KUBEJOBS_HINDRANCE_H_

#include <string>

#include "absl/time/time.h"
#include "adaptdl/v1/node_service.pb.h"
#include "libs/kube/json/json.h"

namespace adaptdl::kubejobs {

struct Hindrance {
  enum class Kind {
    kNone,
    // The scheduler finds no room for it on its node.
    kUnschedulable,
    // An image of its can't be had.
    kImage,
    // A container can't be made or started as it is written.
    kContainer,
  };
  Kind kind = Kind::kNone;
  // Whose fault it is if it does not pass.
  v1::EndCause cause = v1::END_CAUSE_UNSPECIFIED;
  // The cluster's words.
  std::string why = {};
  // By the cluster's clock. InfinitePast: it does not say.
  absl::Time since = absl::InfinitePast();
};
Hindrance HindranceOf(const kube::Json& pod);

// `report` of a pod whose hindrance has lasted too long for its caller: as lost.
v1::ReplicaReport Overdue(v1::ReplicaReport report, const Hindrance& hindrance);

}  // namespace adaptdl::kubejobs

#endif  // ADAPTDL_LIBS_KUBEJOBS_HINDRANCE_H_
