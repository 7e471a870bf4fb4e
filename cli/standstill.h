// For how long a job that runs has taken no step.
//
// A plain function on values, thread-safe.

#ifndef ADAPTDL_CLI_STANDSTILL_H_
#define ADAPTDL_CLI_STANDSTILL_H_

#include "absl/time/time.h"
#include "adaptdl/v1/history_service.pb.h"
#include "adaptdl/v1/job.pb.h"

namespace adaptdl::cli {

// Since its steps became as many as they are, by its latest history. Zero: it does not run, or nobody knows.
absl::Duration StandstillOf(const v1::JobStatus& status, const v1::GetJobHistoryResponse& history,
                            absl::Time now);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_STANDSTILL_H_
