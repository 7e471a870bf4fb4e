// Why a job got what it got, in words. The reason says the same as long as the situation is the same; the
// explanation holds figures, and may change with each decision.
//
// Pure; thread-safe.

#ifndef ADAPTDL_LIBS_SCHEDULING_GOODPUT_EXPLANATION_H_
#define ADAPTDL_LIBS_SCHEDULING_GOODPUT_EXPLANATION_H_

#include <string>
#include <vector>

#include "libs/scheduling/goodput/cluster_model.h"
#include "libs/scheduling/goodput/menu.h"
#include "libs/scheduling/goodput/multiple_choice.h"

namespace adaptdl::scheduling {

class Explainer {
 public:
  // All outlive it. `choice` is the solution of `menu`, `placements` where the jobs went.
  Explainer(const ClusterModel& model, const Menu& menu, const ChoiceResult& choice,
            const std::vector<Placement>& placements);

  std::string Reason(int job) const;
  std::vector<std::string> Explanation(int job) const;

 private:
  struct Steps {
    const Size* up = nullptr;
    const Option* up_option = nullptr;
    const Size* down = nullptr;
  };

  int Replicas(int job) const { return CountReplicas(placements_[job]); }
  int PoolOf(int job) const { return model_.pool_of(placements_[job].front().node); }
  // The next larger and smaller sizes in the pool where the job is.
  Steps StepsOf(int job) const;
  std::string WhyWaiting(int job) const;
  // Who comes before a job that waits, and for how long.
  std::vector<std::string> WhileWaiting(int job) const;
  // Who keeps the places that the job could have. Empty: nobody.
  std::string Keepers(int job) const;
  std::string HowItIsValued(int job) const;
  std::string WhyNoMore(int job) const;

  const ClusterModel& model_;
  const Menu& menu_;
  const ChoiceResult& choice_;
  const std::vector<Placement>& placements_;
  std::vector<int> left_;     // units, by pool
  std::vector<int> keepers_;  // jobs that keep their places
  std::vector<int> before_;   // by job of the line: those before it that wait
};

}  // namespace adaptdl::scheduling

#endif  // ADAPTDL_LIBS_SCHEDULING_GOODPUT_EXPLANATION_H_
