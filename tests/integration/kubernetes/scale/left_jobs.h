// Jobs that run, as a leader has left them that is gone: AdaptDLJob objects with their status, and pods on nodes. They are made
// by the same code that a supervisor has for it, so that the next one finds what it would have written itself.
//
// Thread-safe.

#ifndef ADAPTDL_TESTS_INTEGRATION_KUBERNETES_SCALE_LEFT_JOBS_H_
#define ADAPTDL_TESTS_INTEGRATION_KUBERNETES_SCALE_LEFT_JOBS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "adaptdl/v1/hints.pb.h"
#include "adaptdl/v1/node_service.pb.h"
#include "libs/kube/client/client.h"

namespace adaptdl::integration {

struct LeftJobsOptions {
  int jobs = 50;
  int replicas_per_job = 5;
  // Replicas are spread over "node-0", "node-1", ...
  int nodes = 10;
  // What each of them has told.
  v1::Hints hints = {};
  // Of --group-key-file.
  std::string group_key;
};

// Makes the CRDs and the jobs, "job-0" and so on in the namespace "default". Returns their replicas, with the secrets by
// which they speak.
absl::StatusOr<std::vector<v1::LaunchReplica>> LeaveJobs(const kube::Client& client,
                                                         const LeftJobsOptions& options);

}  // namespace adaptdl::integration

#endif  // ADAPTDL_TESTS_INTEGRATION_KUBERNETES_SCALE_LEFT_JOBS_H_
