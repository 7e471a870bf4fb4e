// All about a job, as text for people. Thread-safe.

#ifndef ADAPTDL_CLI_DESCRIPTION_H_
#define ADAPTDL_CLI_DESCRIPTION_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "adaptdl/v1/job.pb.h"
#include "adaptdl/v1/job_service.pb.h"
#include "adaptdl/v1/node_pool_service.pb.h"
#include "adaptdl/v1/quota_service.pb.h"

namespace adaptdl::cli {

// What stands around a job.
struct JobSurroundings {
  // Its latest.
  v1::ListEventsResponse events = {};
  // For the currency of its cost, and what it waits for.
  v1::GetNodePoolsResponse pools = {};
  v1::ListQuotasResponse quotas = {};
  // How long it has taken no step (standstill.h).
  absl::Duration standstill = absl::ZeroDuration();
  // Of a job whose loss is no number any more (divergence.h).
  std::optional<int64_t> last_sound_step = {};
};

// Spec, status, why it is so, replicas, progress, hints and events of `job`.
std::string DescribeJob(const v1::Job& job, const JobSurroundings& around, absl::Time now, bool colours);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_DESCRIPTION_H_
