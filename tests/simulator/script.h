// A scheduler that decides by a function of the job's name and the time.

#ifndef ADAPTDL_TESTS_SIMULATOR_SCRIPT_H_
#define ADAPTDL_TESTS_SIMULATOR_SCRIPT_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "simulator/schedulers/scheduler.h"

namespace adaptdl::simulator {

class Script final : public Scheduler {
 public:
  using Rule = std::function<Placement(const std::string& job, double now)>;

  explicit Script(Rule rule, bool adaptive = false) : rule_(std::move(rule)), adaptive_(adaptive) {}

  bool adaptive() const override { return adaptive_; }
  absl::StatusOr<std::vector<Placement>> Schedule(const Situation& situation) override {
    times.push_back(situation.now);
    std::vector<Placement> placements;
    for (const SimulatedJob* job : situation.jobs) {
      expected_restarts.push_back(situation.restart.ExpectedChange(job->application()));
      placements.push_back(rule_(job->spec().name, situation.now));
    }
    return placements;
  }

  // Of the decisions, and the restarts' expected costs for each job of each decision.
  std::vector<double> times;
  std::vector<double> expected_restarts;

 private:
  const Rule rule_;
  const bool adaptive_;
};

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_TESTS_SIMULATOR_SCRIPT_H_
