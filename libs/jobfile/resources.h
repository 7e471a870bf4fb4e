// A container's resources, by Kubernetes' rules: what is limited and not requested is requested as limited;
// whole devices are requested and limited alike. Thread-safe.

#ifndef ADAPTDL_LIBS_JOBFILE_RESOURCES_H_
#define ADAPTDL_LIBS_JOBFILE_RESOURCES_H_

#include <string>

#include "adaptdl/v1/resources.pb.h"
#include "libs/jobfile/checker.h"
#include "libs/jobfile/document.h"

namespace adaptdl::jobfile {

// Reads the map `resources` (requests, limits) at `path` into `out`.
void ReadResources(const Node& resources, const std::string& path, v1::Resources* out, Problems* problems);

}  // namespace adaptdl::jobfile

#endif  // ADAPTDL_LIBS_JOBFILE_RESOURCES_H_
