// Who is to be in the next group of a job that changes in place (docs/rescale.md). Pure functions;
// thread-safe.

#ifndef ADAPTDL_LIBS_JOBS_PLANNING_H_
#define ADAPTDL_LIBS_JOBS_PLANNING_H_

#include <string>
#include <vector>

#include "libs/jobs/job.h"

namespace adaptdl::jobs {

// Whether both name the same nodes equally often, in whatever order.
bool SameNodes(std::vector<std::string> a, std::vector<std::string> b);

std::vector<std::string> NodesOf(const std::vector<PlanMember>& members);

// Whether the job may have so many replicas.
bool AllowsSize(const Job& job, int size);
// The largest number of replicas up to `limit` that the job may have; 0 if there is none.
int LargestAllowedSize(const Job& job, int limit);

// Members of a group to come.
struct Target {
  // Survivors in order of rank, then newcomers.
  std::vector<PlanMember> members;
  int survivors = 0;

  int newcomers() const { return static_cast<int>(members.size()) - survivors; }
};

// The members that bring the job to the nodes `desired`. `current`: members that can stay, in order of rank;
// on each node the first ones stay. If none of them could, all do, and leave with the change after this one.
// `ready`: newcomers that were launched before, in order of preference. More are to be launched if
// `may_launch`.
Target ChooseMembers(const std::vector<PlanMember>& current, const std::vector<PlanMember>& ready,
                     const std::vector<std::string>& desired, bool may_launch);

// Whether the plan is for these members. The order of newcomers does not matter.
bool IsPlanFor(const Plan& plan, const Target& target);

}  // namespace adaptdl::jobs

#endif  // ADAPTDL_LIBS_JOBS_PLANNING_H_
