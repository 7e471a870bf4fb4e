// What AdaptDL adds to each container of a replica's pod, and the volumes that this needs: the inside of pod.h.
//
// Pure functions; thread-safe.

#ifndef ADAPTDL_LIBS_KUBEJOBS_POD_CONTAINERS_H_
#define ADAPTDL_LIBS_KUBEJOBS_POD_CONTAINERS_H_

#include <string>

#include "adaptdl/v1/node_service.pb.h"
#include "libs/kube/json/json.h"
#include "libs/kubejobs/pod.h"

namespace adaptdl::kubejobs {

// `pod_spec` has a list of containers, all of them objects.
void AddToContainers(const v1::LaunchReplica& launch, const std::string& node_name, const PodOptions& options,
                     kube::Json* pod_spec);

}  // namespace adaptdl::kubejobs

#endif  // ADAPTDL_LIBS_KUBEJOBS_POD_CONTAINERS_H_
