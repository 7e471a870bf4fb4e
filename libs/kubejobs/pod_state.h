// What a pod says of the replica that it is.
//
//   pod                                                       replica
//   Pending, or its main container waits                      LAUNCHING
//   its main container runs; phase Unknown after it started   RUNNING
//   its main container, or an init container, has ended       EXITED with that code; 128 + n is signal n, but for 143
//   it ended and the process never was, or was not found      LOST
//   deleted before it came to a node                          LOST
//
// The main container decides: other containers may go on, and go with the pod. Whose fault an end was:
//
//   PREEMPTION   it was deleted, evicted, preempted, or its node shut down or was lost
//   NODE         the node did not take it (OutOf..., UnexpectedAdmissionError, NodeAffinity, ...), or lost its process
//   IMAGE        the program could not be started
//   JOB          it went over a limit of its own: memory, disk, activeDeadlineSeconds
//   unspecified  exit code and signal say what there is to say
//
// Plain functions; thread-safe. Pods are taken as they come: what is not as it should be reads as missing.

#ifndef ADAPTDL_LIBS_KUBEJOBS_POD_STATE_H_
#define ADAPTDL_LIBS_KUBEJOBS_POD_STATE_H_

#include <optional>
#include <string>

#include "adaptdl/v1/node_service.pb.h"
#include "libs/kube/json/json.h"

namespace adaptdl::kubejobs {

// Nothing: the pod is no replica, which an AdaptDLJob owns and which has our label.
std::optional<v1::ReplicaReport> ReportOf(const kube::Json& pod);

// The container whose end is the replica's: the one that the annotation kubectl.kubernetes.io/default-container
// names, as what injects others beside it may put them first; else the first.
std::string MainContainer(const kube::Json& pod);

}  // namespace adaptdl::kubejobs

#endif  // ADAPTDL_LIBS_KUBEJOBS_POD_STATE_H_
