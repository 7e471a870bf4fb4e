// Selection by dynamic programming: exact, where the table is small.
//
// Pure functions; thread-safe.

#ifndef ADAPTDL_LIBS_SCHEDULING_GOODPUT_CHOICE_TABLE_H_
#define ADAPTDL_LIBS_SCHEDULING_GOODPUT_CHOICE_TABLE_H_

#include <cstdint>
#include <vector>

#include "libs/scheduling/goodput/candidates.h"

namespace adaptdl::scheduling {

// Whether the table takes no more updates than that: its states (what every pool has left) times the options.
bool FitsTable(const Candidates& candidates, const std::vector<int>& capacity, int64_t most_updates);

// Whether it could, if all but one option were struck out.
bool MayFitTable(const std::vector<int>& capacity, int64_t most_updates);

// The best position in each group's candidates, or -1. REQUIRES: it fits some number of updates.
std::vector<int> SolveByTable(const Candidates& candidates, const std::vector<int>& capacity);

}  // namespace adaptdl::scheduling

#endif  // ADAPTDL_LIBS_SCHEDULING_GOODPUT_CHOICE_TABLE_H_
