// A job's groups: who is in them, and what their members are told. At the rendezvous of a group exactly its
// members meet, never more, never fewer, and no timer decides.
//
// Pure functions over the group's replica records, which are stored with the job; so a restarted supervisor
// carries on where it was. Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_JOBS_GROUP_H_
#define ADAPTDL_SERVICES_SUPERVISOR_JOBS_GROUP_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "adaptdl/v1/replica_service.pb.h"
#include "libs/jobs/job.h"
#include "services/supervisor/state/job_entry.h"
#include "services/supervisor/state/tables.h"
#include "services/supervisor/store/records.h"

namespace adaptdl::supervisor {

using GroupMembers = std::vector<std::shared_ptr<const ReplicaRecord>>;  // The index is the rank.

// ABORTED, as replicas of a group are told that is over.
absl::Status GroupOver(int64_t group);

// Whether the group is the one that the job works with now.
bool IsCurrent(const JobEntry& job, int64_t group);

// Of a job's replicas those that are members of the group with this number, by rank.
GroupMembers MembersOf(const GroupMembers& replicas, int64_t group);
// Members of a plan whose replicas were all launched.
GroupMembers MembersOf(const GroupMembers& replicas, const jobs::Plan& plan);

// Index of the replica with this id; -1 if there is none.
int FindMember(const GroupMembers& members, absl::string_view replica_id);

// Whether all members have joined.
bool GroupComplete(const GroupMembers& members);

// Whether those who wait are told of a join after which the group is as it is now: always in a small group;
// in a large one, where a message to each member with each that comes would be most of what the supervisor
// does, whenever half of those that were missing have come.
bool WorthTelling(const GroupMembers& members);

// Whether the member may join with `address`, which it must give if it `may_lead`. It may say the same again
// at any time, and something else until the group is complete.
absl::Status CheckJoin(const GroupMembers& members, int rank, absl::string_view address,
                       bool may_lead = false);

// What the member of `rank` is to know now: who is missing, or the formed group.
v1::JoinGroupResponse DescribeGroup(const GroupMembers& members, int64_t group, int rank);
// The formed group, as one of `rank` sees it; -1: as one that is to leave sees it.
v1::GroupFormed DescribeFormed(const GroupMembers& members, int64_t group, int rank);
// The newcomers of `plan` that are not ready.
v1::GroupForming DescribeForming(const GroupMembers& replicas, const jobs::Plan& plan);

// What a replica is told of its group at its start.
struct GroupSize {
  int replicas = 0;
  // Distinct ones.
  int nodes = 0;
};
// Of the group that the replica is started for: the newest plan that it is in, or else the current one.
GroupSize SizeOfGroup(const JobEntry& job, const std::string& replica_id);

// The group that `members` form, as the replica is to see it.
void FillFormed(const Tables& tables, const JobEntry& job, const GroupMembers& members, int64_t group,
                const std::string& replica_id, v1::GroupFormed* formed);

// The members of the newest plan that was offered, or else of the current group.
GroupMembers PlannedMembers(const JobEntry& job);
// Whether all of them that live have said where they are reached. Not every store keeps that (the Kubernetes one does
// not): until a new leader has heard it again, nobody could meet by what it says.
bool AreReachable(const GroupMembers& members);
// The newest plan that was offered, or else the current group, as the replica is to see it.
v1::GroupPlan DescribePlan(const Tables& tables, const JobEntry& job, const std::string& replica_id);

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_JOBS_GROUP_H_
