#include "simulator/schedulers/fifo.h"

#include <vector>

#include "simulator/schedulers/free_nodes.h"

namespace adaptdl::simulator {

absl::StatusOr<std::vector<Placement>> Fifo::Schedule(const Situation& situation) {
  if (absl::Status status = CheckUniform(situation.cluster); !status.ok()) {
    return status;
  }
  FreeNodes free(situation);
  int left = situation.GpusUp();
  for (const SimulatedJob* job : situation.jobs) {
    free.Take(job->placement());
    left -= job->gpus();
  }
  std::vector<Placement> placements;
  bool held_up = false;
  for (const SimulatedJob* job : situation.jobs) {
    Placement& placement = placements.emplace_back(job->placement());
    if (!placement.empty()) {
      continue;
    }
    held_up = held_up || job->spec().replicas > left;
    if (!held_up) {
      placement = free.TakeFromFreest(job->spec().replicas);
      left -= job->spec().replicas;
    }
  }
  return placements;
}

}  // namespace adaptdl::simulator
