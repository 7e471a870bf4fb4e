// Tiresias as the published Pollux artifact has it: two queues by attained service, jobs of fixed size and
// batch.
//
// A job goes down once its wall time with GPUs times its GPUs reaches 16 GPU hours, for good. The queues are
// walked in order; a job runs if all its GPUs are still to be had, and keeps those that it has.

#ifndef ADAPTDL_SIMULATOR_SCHEDULERS_TIRESIAS_H_
#define ADAPTDL_SIMULATOR_SCHEDULERS_TIRESIAS_H_

#include <map>
#include <vector>

#include "simulator/schedulers/scheduler.h"

namespace adaptdl::simulator {

class Tiresias final : public Scheduler {
 public:
  bool adaptive() const override { return false; }
  absl::StatusOr<std::vector<Placement>> Schedule(const Situation& situation) override;

 private:
  struct Entry {
    bool running = false;
    double executed = 0;
  };

  void Enqueue(const Situation& situation);
  void Demote(double elapsed);
  // Decides who runs.
  void Admit(int gpus);
  // Both queues, the first one first.
  std::vector<const SimulatedJob*> InOrder() const;

  double last_ = 0;
  std::vector<const SimulatedJob*> first_;
  std::vector<const SimulatedJob*> second_;
  std::map<const SimulatedJob*, Entry> entries_;
};

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_SIMULATOR_SCHEDULERS_TIRESIAS_H_
