// First come, first served: jobs of fixed size and batch, each in its turn. What most clusters begin with.
//
// Jobs start in the order of submission, none before all earlier ones have started, and keep their GPUs until
// they are done or lose their node.

#ifndef ADAPTDL_SIMULATOR_SCHEDULERS_FIFO_H_
#define ADAPTDL_SIMULATOR_SCHEDULERS_FIFO_H_

#include <vector>

#include "simulator/schedulers/scheduler.h"

namespace adaptdl::simulator {

class Fifo final : public Scheduler {
 public:
  bool adaptive() const override { return false; }
  absl::StatusOr<std::vector<Placement>> Schedule(const Situation& situation) override;
};

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_SIMULATOR_SCHEDULERS_FIFO_H_
