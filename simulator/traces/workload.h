// Which jobs arrive when.
//
// Immutable once loaded; thread-safe.

#ifndef ADAPTDL_SIMULATOR_TRACES_WORKLOAD_H_
#define ADAPTDL_SIMULATOR_TRACES_WORKLOAD_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/traces/application.h"

namespace adaptdl::simulator {

struct WorkloadJob {
  std::string name;
  // Seconds since the start.
  double submitted = 0;
  std::shared_ptr<const Application> application;
  // What policies use that adapt nothing: GPUs and total batch size.
  int replicas = 1;
  int64_t batch_size = 1;
};

struct WorkloadOptions {
  // CSV: name, time, application, num_replicas, batch_size.
  std::string path;
  // See LoadApplication().
  std::vector<std::string> trace_folders;
  std::vector<std::string> gpu_types;
  TraceRules rules = TraceRules::kPollux;
};

// The jobs in order of submission, with their applications. INVALID_ARGUMENT: names the job and what is
// wrong.
absl::StatusOr<std::vector<WorkloadJob>> LoadWorkload(const WorkloadOptions& options);

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_SIMULATOR_TRACES_WORKLOAD_H_
