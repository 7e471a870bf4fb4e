#include "simulator/schedulers/tiresias.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "simulator/schedulers/free_nodes.h"

namespace adaptdl::simulator {
namespace {

// GPU seconds after which a job goes to the second queue.
constexpr double kQuota = 57'600;

bool IsDone(const SimulatedJob* job) { return job->done(); }

}  // namespace

absl::StatusOr<std::vector<Placement>> Tiresias::Schedule(const Situation& situation) {
  if (absl::Status status = CheckUniform(situation.cluster); !status.ok()) {
    return status;
  }
  Enqueue(situation);
  Demote(situation.now - last_);
  last_ = situation.now;
  Admit(situation.GpusUp());

  FreeNodes free(situation);
  std::map<const SimulatedJob*, Placement> placements;
  for (const SimulatedJob* job : situation.jobs) {
    if (entries_[job].running && !job->placement().empty()) {
      placements[job] = job->placement();
      free.Take(job->placement());
    }
  }
  for (const SimulatedJob* job : InOrder()) {
    if (entries_[job].running && placements[job].empty()) {
      placements[job] = free.TakeFromFreest(job->spec().replicas);
    }
  }
  std::vector<Placement> result;
  for (const SimulatedJob* job : situation.jobs) {
    result.push_back(std::move(placements[job]));
  }
  return result;
}

void Tiresias::Enqueue(const Situation& situation) {
  for (std::vector<const SimulatedJob*>* queue : {&first_, &second_}) {
    queue->erase(std::remove_if(queue->begin(), queue->end(), IsDone), queue->end());
  }
  for (const SimulatedJob* job : situation.jobs) {
    if (entries_.emplace(job, Entry()).second) {
      first_.push_back(job);
    }
  }
}

void Tiresias::Demote(double elapsed) {
  for (const SimulatedJob* job : InOrder()) {
    Entry& entry = entries_[job];
    entry.executed += entry.running ? elapsed : 0;
  }
  const auto spent = [this](const SimulatedJob* job) {
    const Entry& entry = entries_[job];
    return entry.running && entry.executed * job->spec().replicas >= kQuota;
  };
  // In order of submission, as they stand in the queue.
  std::copy_if(first_.begin(), first_.end(), std::back_inserter(second_), spent);
  first_.erase(std::remove_if(first_.begin(), first_.end(), spent), first_.end());
}

void Tiresias::Admit(int gpus) {
  for (const SimulatedJob* job : InOrder()) {
    Entry& entry = entries_[job];
    entry.running = job->spec().replicas <= gpus;
    gpus -= entry.running ? job->spec().replicas : 0;
  }
}

std::vector<const SimulatedJob*> Tiresias::InOrder() const {
  std::vector<const SimulatedJob*> jobs = first_;
  jobs.insert(jobs.end(), second_.begin(), second_.end());
  return jobs;
}

}  // namespace adaptdl::simulator
