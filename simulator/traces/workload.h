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
#include "libs/scheduling/resources.h"
#include "simulator/traces/application.h"

namespace adaptdl::simulator {

// What a job asks of its cluster.
struct ReplicaDemand {
  // The job gets none or at least the first, and at most the second; 0: no limit of its own.
  int min_replicas = 1;
  int max_replicas = 0;
  // The only sizes that it may have, ascending. Empty: any.
  std::vector<int> allowed_replicas = {};
  bool preemptible = true;
  int priority = 0;
  std::string name_space = {};
  // What one replica needs.
  scheduling::Resources request = {{scheduling::kGpu, 1}};
};

struct WorkloadJob {
  std::string name;
  // Seconds since the start.
  double submitted = 0;
  std::shared_ptr<const Application> application;
  // What policies use that adapt nothing: GPUs and total batch size.
  int replicas = 1;
  int64_t batch_size = 1;
  ReplicaDemand demand = {};
  // Whether its program does not use the training library. It keeps these GPUs and this batch size under
  // every policy, measures nothing, writes no checkpoints, and begins anew when it was stopped.
  bool plain = false;
  // Its work, as a multiple of its application's: each epoch is so many times as long. Greater than 0.
  double work = 1;
};

// Makes some of the jobs plain: each with the chance `part`, by its name and the seed.
void MakePlain(double part, uint64_t seed, std::vector<WorkloadJob>* workload);

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
