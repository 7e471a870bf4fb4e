// Optimus with an oracle, as the published Pollux artifact has it: GPUs go one by one to the job whose
// remaining time they shorten most, by the *true* step times; batch sizes are fixed.

#ifndef ADAPTDL_SIMULATOR_SCHEDULERS_OPTIMUS_H_
#define ADAPTDL_SIMULATOR_SCHEDULERS_OPTIMUS_H_

#include <map>
#include <vector>

#include "simulator/schedulers/scheduler.h"

namespace adaptdl::simulator {

class Optimus final : public Scheduler {
 public:
  bool adaptive() const override { return false; }
  absl::StatusOr<std::vector<Placement>> Schedule(const Situation& situation) override;

 private:
  struct Candidate {
    const SimulatedJob* job = nullptr;
    double remaining = 0;  // iterations
    int most = 0;          // GPUs
    int gpus = 0;
    double gain = 0;
  };

  absl::StatusOr<std::vector<Candidate>> ShareOut(const Situation& situation);
  // Seconds that one more GPU saves; 0 if the job can't have it.
  absl::StatusOr<double> Gain(const Cluster& cluster, const Candidate& candidate, int gpus_left);
  // True time of one iteration on densely packed GPUs.
  absl::StatusOr<double> IterationTime(const Cluster& cluster, const SimulatedJob& job, int gpus);

  // By number of GPUs, from 1; NaN: not asked for yet.
  std::map<const SimulatedJob*, std::vector<double>> iteration_times_;
};

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_SIMULATOR_SCHEDULERS_OPTIMUS_H_
