// One run of a workload on a cluster of the real programs, compressed in time.
//
// A compression of C: jobs come C times as fast and have C times less to do, at the speed that was recorded. Times in
// what comes out are those of the workload again: C times what the clock showed.
//
// Not thread-safe.

#ifndef ADAPTDL_BENCH_REPLAY_LIVE_RUN_H_
#define ADAPTDL_BENCH_REPLAY_LIVE_RUN_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "simulator/traces/workload.h"

namespace adaptdl::replay {

enum class Arm {
  // The allocator decides; jobs adapt their batch sizes.
  kElastic = 0,
  // First come, first served, with the workload's replicas and batch sizes.
  kStatic = 1,
};

struct LiveOptions {
  Arm arm = Arm::kElastic;
  int nodes = 16;
  int slots_per_node = 4;
  double compression = 20;
  std::vector<std::string> traces;
  // Of the program played_job.
  std::string program;
  // Else it ends when the last job was submitted, and has times of changes only.
  bool to_the_end = true;
  // How long the whole run may take, by the clock.
  absl::Duration timeout = absl::Hours(6);
};

struct LiveJob {
  std::string name;
  // Seconds of the workload, since the run began.
  double submitted = 0;
  double started = 0;
  double completed = 0;
  double replica_seconds = 0;
  int restarts = 0;
  int rescales = 0;

  double jct() const { return completed - submitted; }
};

struct LiveRun {
  // In the order of the workload. Empty if it was not run to the end.
  std::vector<LiveJob> jobs;
  // By the clock, in seconds, not times C: what starts from nothing took, from the decision to the first step; how
  // long changes in place waited for newcomers; and how long each has kept the job from training.
  std::vector<double> start_seconds;
  std::vector<double> newcomer_seconds;
  std::vector<double> in_place_seconds;
};

// Says how far it is on standard error. The first job is submitted at once. FAILED_PRECONDITION: a job did not succeed.
absl::StatusOr<LiveRun> RunLive(absl::Span<const simulator::WorkloadJob> workload,
                                const LiveOptions& options);

}  // namespace adaptdl::replay

#endif  // ADAPTDL_BENCH_REPLAY_LIVE_RUN_H_
