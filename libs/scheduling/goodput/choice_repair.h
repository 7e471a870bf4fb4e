// Makes a selection of one that takes more than there is, and of one that leaves something.
//
// Pure functions of the selection; not thread-safe.

#ifndef ADAPTDL_LIBS_SCHEDULING_GOODPUT_CHOICE_REPAIR_H_
#define ADAPTDL_LIBS_SCHEDULING_GOODPUT_CHOICE_REPAIR_H_

#include "libs/scheduling/goodput/candidates.h"

namespace adaptdl::scheduling {

// Takes from groups what a pool does not have, where that costs least per unit. O(groups x options), and the logarithm of
// the groups for each step.
void MakeFeasible(const Candidates& candidates, Selection* selection);

// Gives what is left to whoever gains most per unit.
void Fill(const Candidates& candidates, Selection* selection);

}  // namespace adaptdl::scheduling

#endif  // ADAPTDL_LIBS_SCHEDULING_GOODPUT_CHOICE_REPAIR_H_
