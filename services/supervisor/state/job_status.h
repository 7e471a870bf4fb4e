// A job as users and the allocator are told of it: v1::JobStatus is made of the record here, for answers only,
// and nothing is decided on it. Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_STATE_JOB_STATUS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_STATE_JOB_STATUS_H_

#include "absl/time/time.h"
#include "adaptdl/v1/job.pb.h"
#include "services/supervisor/state/job_entry.h"

namespace adaptdl::supervisor {

// Who is told. The allocator needs no texts about the phase and no times for people.
enum class Audience { kUsers, kAllocator };

// All but the replicas, as it is at `now` (a steady time), into a status that is empty.
void FillStatus(const JobRecord& record, Audience audience, absl::Time now, v1::JobStatus* status);

// Whether a job in this phase has a group that takes steps. With a plan for other replicas it does until they are there.
bool TakesSteps(jobs::Phase phase);

// The job as users see it.
v1::Job DescribeJob(const JobEntry& entry, absl::Time now);

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_STATE_JOB_STATUS_H_
