// Where a pod template says that its pods may be placed: nodeSelector, the required part of
// affinity.nodeAffinity, and tolerations. What is only preferred has no effect. Thread-safe.

#ifndef ADAPTDL_LIBS_JOBFILE_PLACEMENT_H_
#define ADAPTDL_LIBS_JOBFILE_PLACEMENT_H_

#include <string>

#include "adaptdl/v1/placement.pb.h"
#include "libs/jobfile/checker.h"
#include "libs/jobfile/document.h"

namespace adaptdl::jobfile {

// Reads the pod's fields at `path` ("spec.template.spec"). The bounds are those of libs/jobspec/placement.h.
v1::Placement ReadPlacement(const Node& pod, const std::string& path, Problems* problems);

}  // namespace adaptdl::jobfile

#endif  // ADAPTDL_LIBS_JOBFILE_PLACEMENT_H_
