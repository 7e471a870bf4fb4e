// Chooses the batch size of a job that adapts it: how many samples a replica computes at once, and how many
// micro-batches make an optimiser step.
//
//   training thread ──limits, batch in use, gradient statistics──▶ controller ◀──throughput model──
//   background
//                                                                      │
//                                                                   Decide() ──▶ what to change to
//
// Rank 0 alone decides; how the others learn of it is the job's affair (BatchDecider).

#ifndef ADAPTDL_LIBS_ELASTIC_JOB_BATCH_SIZE_CONTROLLER_H_
#define ADAPTDL_LIBS_ELASTIC_JOB_BATCH_SIZE_CONTROLLER_H_

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libs/base/mutex.h"
#include "libs/goodput/model.h"
#include "libs/goodput/optimize.h"

namespace adaptdl::elastic {

// A change must promise more than this times the goodput of the batch in use.
inline constexpr double kBatchSizeHysteresis = 1.05;

// The batch to change to. nullopt: the one in use stays. `current`: the batch in use; nullopt: none was
// chosen for these replicas yet, and the best one is taken, however little better it may be. A current batch
// that the limits no longer allow is left in any case. Pure; thread-safe.
std::optional<goodput::BatchConfig> DecideBatchSize(const goodput::GoodputFunction& goodput,
                                                    goodput::Topology topology,
                                                    const goodput::BatchLimits& limits,
                                                    std::optional<goodput::BatchConfig> current);

// The inputs of the decision, gathered from several threads. Thread-safe.
class BatchSizeController {
 public:
  // Whom a batch is chosen for.
  struct Replicas {
    goodput::Topology topology = {.nodes = 1, .replicas = 1};
    std::vector<std::string> gpu_types = {};
    // Number of their group.
    int64_t group = 0;
  };

  explicit BatchSizeController(goodput::Topology topology = {.nodes = 1, .replicas = 1}) {
    SetReplicas({.topology = topology});
  }

  // On what the job runs now. Nothing was chosen for these replicas yet.
  void SetReplicas(const Replicas& replicas);
  Replicas replicas() const;
  // What the loader is allowed, how many samples its steps have now, over all replicas, and what was chosen
  // (as DecideBatchSize()'s `current`).
  void SetBatch(int64_t init_batch_size, const goodput::BatchLimits& limits, int64_t total,
                std::optional<goodput::BatchConfig> current);
  // No loader adapts its batch size (any more).
  void Clear();
  void SetGradParams(const goodput::GradParams& grad);
  void SetPerfParams(const goodput::PerfParams& perf);

  // Whether some loader adapts its batch size and gradient statistics are known.
  bool ready() const;
  std::optional<goodput::GradParams> grad_params() const;

  struct Decision {
    goodput::BatchConfig batch;
    // Whose replicas it is for.
    int64_t group = 0;
  };
  // nullopt: nothing to change, or something is not known yet. The total batch size becomes at most
  // `most_growth` times that of the steps now, chosen for these replicas or not. At least 1.
  std::optional<Decision> Decide(double most_growth = HUGE_VAL) const;

 private:
  struct Batch {
    int64_t init_batch_size = 1;
    goodput::BatchLimits limits;
    int64_t total = 1;
    std::optional<goodput::BatchConfig> current;
  };

  mutable Mutex mutex_;
  Replicas replicas_ ABSL_GUARDED_BY(mutex_);
  std::optional<Batch> batch_ ABSL_GUARDED_BY(mutex_);
  std::optional<goodput::GradParams> grad_ ABSL_GUARDED_BY(mutex_);
  std::optional<goodput::PerfParams> perf_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_JOB_BATCH_SIZE_CONTROLLER_H_
