// The rendezvous of a group: exactly its members meet, never more, never fewer, and no timer decides.
//
// Pure functions over the group's replica records, which are stored with the job; so a restarted supervisor
// carries on where it was. Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_RENDEZVOUS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_RENDEZVOUS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "adaptdl/v1/replica_service.pb.h"
#include "libs/jobs/job.h"
#include "services/supervisor/store/records.h"

namespace adaptdl::supervisor {

using GroupMembers = std::vector<std::shared_ptr<const ReplicaRecord>>;  // The index is the rank.

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

// What stands for the token in URLs, which end up in programs' logs: tells nothing about the token.
std::string UrlSecret(absl::string_view token);

// Whether two secrets are the same, in a time that does not depend on where they differ.
bool SameSecret(absl::string_view a, absl::string_view b);

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_RENDEZVOUS_H_
