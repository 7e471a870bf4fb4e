// The rules of a job's specification, and its defaults. Errors are INVALID_ARGUMENT and name the field, its
// value and the remedy. Pure functions; thread-safe.

#ifndef ADAPTDL_LIBS_JOBSPEC_JOB_SPEC_H_
#define ADAPTDL_LIBS_JOBSPEC_JOB_SPEC_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "adaptdl/v1/job.pb.h"

namespace adaptdl::jobspec {

// What a replica is: a process of a node worker, which needs a command, or a pod, whose image may have an entry point.
enum class ReplicaKind { kProcess, kPod };

// job.namespace, job.labels and job.spec, and job.name unless it is to be generated from `generate_name`.
absl::Status CheckNewJob(const v1::Job& job, absl::string_view generate_name,
                         ReplicaKind kind = ReplicaKind::kProcess);

absl::Status CheckSpec(const v1::JobSpec& spec, ReplicaKind kind = ReplicaKind::kProcess);
// Its min_replicas, max_replicas and allowed_replicas, and whether the job could ever run with them.
absl::Status CheckReplicaCounts(const v1::JobSpec& spec);

// What may change of a job after its submission (v1::UpdateJobRequest), also of one that an older version with other
// rules has let in.
absl::Status CheckUpdated(const v1::JobSpec& spec);
// Whether `before` may become `after`. PERMISSION_DENIED: something differs that can't change; names it.
absl::Status CheckUpdate(const v1::Job& before, const v1::Job& after);

// Variables that the system sets for each replica, and users therefore can't.
const std::vector<absl::string_view>& SystemVariables();
// Whether a variable of this name is one of them, or of those that configure servers ("ADAPTDL_SERVER_...").
bool IsSystemVariable(absl::string_view name);

// Fills in the documented defaults of a valid spec.
void FillDefaults(v1::JobSpec* spec);

// Time between SIGTERM and SIGKILL, within its bounds.
absl::Duration GracePeriod(const v1::ReplicaTemplate& replica);

}  // namespace adaptdl::jobspec

#endif  // ADAPTDL_LIBS_JOBSPEC_JOB_SPEC_H_
