#include "services/supervisor/rendezvous.h"

#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "openssl/sha.h"
#include "services/supervisor/validation.h"

namespace adaptdl::supervisor {
namespace {

// Members named to those who wait.
constexpr int kMostMissing = 16;
// Largest group that is told of each join.
constexpr size_t kSmallGroup = 32;

void Describe(const ReplicaRecord& record, int rank, v1::GroupMember* member) {
  member->set_replica_id(record.replica.replica_id());
  member->set_rank(rank);
  member->set_node_id(record.replica.node_id());
  member->set_address(record.address);
}

}  // namespace

GroupMembers MembersOf(const GroupMembers& replicas, int64_t group) {
  GroupMembers members;
  for (const auto& replica : replicas) {
    if (replica->replica.group() == group) members.push_back(replica);
  }
  return members;
}

GroupMembers MembersOf(const GroupMembers& replicas, const jobs::Plan& plan) {
  GroupMembers members;
  for (const jobs::PlanMember& member : plan.members) {
    const int index = FindMember(replicas, member.replica_id);
    if (index >= 0) members.push_back(replicas[index]);
  }
  return members;
}

int FindMember(const GroupMembers& members, absl::string_view replica_id) {
  for (size_t rank = 0; rank < members.size(); ++rank) {
    if (members[rank]->replica.replica_id() == replica_id) return static_cast<int>(rank);
  }
  return -1;
}

bool GroupComplete(const GroupMembers& members) {
  return !members.empty() && std::all_of(members.begin(), members.end(),
                                         [](const auto& member) { return member->replica.joined(); });
}

bool WorthTelling(const GroupMembers& members) {
  const auto missing = static_cast<size_t>(std::count_if(
      members.begin(), members.end(), [](const auto& member) { return !member->replica.joined(); }));
  return members.size() <= kSmallGroup || (missing & (missing - 1)) == 0;
}

absl::Status CheckJoin(const GroupMembers& members, int rank, absl::string_view address, bool may_lead) {
  if (rank == 0 || may_lead || !address.empty()) {
    const absl::Status status = ValidateAddress("address", address);
    if (!status.ok()) return status;
  }
  const ReplicaRecord& member = *members[rank];
  if (GroupComplete(members) && member.address != address) {
    return absl::FailedPreconditionError(
        absl::StrCat("address: the group has formed with \"", member.address,
                     "\" for this replica, and its peers have been told; join with the same address"));
  }
  return absl::OkStatus();
}

v1::JoinGroupResponse DescribeGroup(const GroupMembers& members, int64_t group, int rank) {
  v1::JoinGroupResponse response;
  if (!GroupComplete(members)) {
    v1::GroupForming* forming = response.mutable_forming();
    for (const auto& member : members) {
      if (forming->missing_size() == kMostMissing) break;
      if (!member->replica.joined()) Describe(*member, member->replica.rank(), forming->add_missing());
    }
    return response;
  }
  *response.mutable_formed() = DescribeFormed(members, group, rank);
  return response;
}

v1::GroupFormed DescribeFormed(const GroupMembers& members, int64_t group, int rank) {
  v1::GroupFormed formed;
  std::set<std::string> nodes;
  for (size_t i = 0; i < members.size(); ++i) {
    Describe(*members[i], static_cast<int>(i), formed.add_members());
    nodes.insert(members[i]->replica.node_id());
  }
  formed.set_group(group);
  formed.set_rank(rank);
  formed.set_world_size(static_cast<int32_t>(members.size()));
  formed.set_num_nodes(static_cast<int32_t>(nodes.size()));
  if (!members.empty()) formed.set_master_address(members[0]->address);
  return formed;
}

v1::GroupForming DescribeForming(const GroupMembers& replicas, const jobs::Plan& plan) {
  v1::GroupForming forming;
  for (size_t rank = 0; rank < plan.members.size(); ++rank) {
    const jobs::PlanMember& member = plan.members[rank];
    const int index = FindMember(replicas, member.replica_id);
    if (forming.missing_size() == kMostMissing) break;
    if (index >= 0 && replicas[index]->replica.joined()) continue;
    v1::GroupMember* missing = forming.add_missing();
    missing->set_replica_id(member.replica_id);
    missing->set_rank(static_cast<int32_t>(rank));
    missing->set_node_id(member.node);
  }
  return forming;
}

std::string UrlSecret(absl::string_view token) {
  const std::string text = absl::StrCat("adaptdl-http ", token);
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(digest), 16));
}

bool SameSecret(absl::string_view a, absl::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned char difference = 0;
  for (size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  return difference == 0;
}

}  // namespace adaptdl::supervisor
