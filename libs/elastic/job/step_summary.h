// What an optimiser step of a data loader's loop was.

#ifndef ADAPTDL_LIBS_ELASTIC_JOB_STEP_SUMMARY_H_
#define ADAPTDL_LIBS_ELASTIC_JOB_STEP_SUMMARY_H_

#include <cstdint>

#include "libs/goodput/optimize.h"

namespace adaptdl::elastic {

struct StepSummary {
  // Consumed by all replicas together.
  int64_t samples = 0;
  // The total batch size that was chosen, and what it began with.
  int64_t batch_size = 1;
  int64_t init_batch_size = 1;
  // What gradient statistics are relative to. 0: the same.
  int64_t base_batch_size = 0;
  // Of the replica with the largest share: samples of one micro-batch, and number of micro-batches.
  int64_t atomic_batch_size = 1;
  int64_t micro_batches = 1;
  // Whether its time says something about this batch: it was not a short one, nor begun anew.
  bool typical = true;
  // What the job may use. max_batch_size 0: the batch size stays.
  goodput::BatchLimits limits = {};
  // Whether the batch was chosen for the present number of replicas.
  bool chosen = true;
  // Part of the loop that is done, and its length in steps at the initial batch size.
  double loop_fraction = 0;
  double loop_steps = 0;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_JOB_STEP_SUMMARY_H_
