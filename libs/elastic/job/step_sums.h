// What the program sums up over all replicas (adaptdl/accumulator.h), as the steps of a loop see it.

#ifndef ADAPTDL_LIBS_ELASTIC_JOB_STEP_SUMS_H_
#define ADAPTDL_LIBS_ELASTIC_JOB_STEP_SUMS_H_

namespace adaptdl::elastic {

// Called by the training thread.
class StepSums {
 public:
  virtual ~StepSums() = default;
  // Collective: adds everyone's pending updates to the totals, but for those of a step in progress.
  virtual void Merge() = 0;
  // What was added in the step in progress counts; or it comes to nothing.
  virtual void KeepStep() = 0;
  virtual void DropStep() = 0;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_JOB_STEP_SUMS_H_
