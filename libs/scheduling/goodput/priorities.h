// The selection problem with priorities: jobs of a higher priority get what they need to start before others.
//
// Level by level, the highest first: of the level's jobs, those are let in that have room at their smallest
// sizes beside all who were let in before, for the largest sum of values. The lowest level is not let in by
// itself. One selection over all jobs then shares out the capacity by value, in which whoever was let in has
// some size. So a high priority lets a job start; it does not let it grow while others wait.
//
// Values of different levels are never weighed against each other by large factors: any number of levels is
// decided with the same precision.
//
// Pure and deterministic; thread-safe.

#ifndef ADAPTDL_LIBS_SCHEDULING_GOODPUT_PRIORITIES_H_
#define ADAPTDL_LIBS_SCHEDULING_GOODPUT_PRIORITIES_H_

#include <vector>

#include "libs/scheduling/goodput/multiple_choice.h"

namespace adaptdl::scheduling {

struct PrioritisedChoice {
  // `bound`: of the selections in which all who were let in have some size.
  ChoiceResult choice;
  // By group.
  std::vector<char> let_in;
};

// `priority`: by group; larger numbers come first.
PrioritisedChoice SolveByPriority(const ChoiceProblem& problem, const std::vector<int>& priority,
                                  const ChoiceLimits& limits);

}  // namespace adaptdl::scheduling

#endif  // ADAPTDL_LIBS_SCHEDULING_GOODPUT_PRIORITIES_H_
