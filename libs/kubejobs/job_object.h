// AdaptDLJob objects as the jobs that the supervisor keeps, and the reverse. Pure functions; thread-safe.

#ifndef ADAPTDL_LIBS_KUBEJOBS_JOB_OBJECT_H_
#define ADAPTDL_LIBS_KUBEJOBS_JOB_OBJECT_H_

#include <string>

#include "absl/status/statusor.h"
#include "adaptdl/v1/job.pb.h"
#include "libs/kube/json/json.h"

namespace adaptdl::kubejobs {

// Its namespace, name, uid, labels, and its spec with the defaults filled in. Of the pod template that is what the
// scheduler needs: what one pod asks for, where it may be placed, its grace period, and of the first container the
// image, command and plain variables, for people. `default_resources`: of containers that say nothing of a resource
// (WithDefaultResources()). INVALID_ARGUMENT: all that is wrong, a line each, by field.
absl::StatusOr<v1::Job> JobFromObject(const kube::Json& object, const kube::Json& default_resources = {});

// The object that such a job is submitted as: a template with one container. `generate_name`: where the job has no
// name. INVALID_ARGUMENT: the job has no image, or asks for what there is for node workers alone.
absl::StatusOr<kube::Json> ObjectFromJob(const v1::Job& job, const std::string& generate_name);

// Of ObjectFromJob's spec, what may change (v1::UpdateJobRequest), as a merge patch.
kube::Json UpdatePatch(const v1::JobSpec& spec);

}  // namespace adaptdl::kubejobs

#endif  // ADAPTDL_LIBS_KUBEJOBS_JOB_OBJECT_H_
