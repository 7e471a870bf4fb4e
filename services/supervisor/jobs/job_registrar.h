// Where jobs live outside of the supervisor's store, and get their identity from: objects of Kubernetes. What is asked
// for through the API is asked of it first, and becomes a change of the state then; what others do there is told to
// JobManager (AdoptJob(), TakeUpdate(), AbandonJob()).
//
// Thread-safe. Calls wait for the other side, and are made without any lock. Errors are those that clients see.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_JOBS_JOB_REGISTRAR_H_
#define ADAPTDL_SERVICES_SUPERVISOR_JOBS_JOB_REGISTRAR_H_

#include <string>

#include "absl/status/statusor.h"
#include "adaptdl/v1/job.pb.h"
#include "services/supervisor/store/records.h"

namespace adaptdl::supervisor {

class JobRegistrar {
 public:
  virtual ~JobRegistrar() = default;

  // Makes the job there; once per request. The job as it is there, with its name and uid. ALREADY_EXISTS: the name is
  // taken by another one.
  virtual absl::StatusOr<v1::Job> Create(const v1::Job& job, const std::string& generate_name,
                                         const RequestKey& key) = 0;
  // Brings there what may change of its specification.
  virtual absl::Status Update(const v1::Job& job) = 0;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_JOBS_JOB_REGISTRAR_H_
