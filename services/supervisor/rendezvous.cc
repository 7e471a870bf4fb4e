#include "services/supervisor/rendezvous.h"

#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "services/supervisor/validation.h"

namespace adaptdl::supervisor {
namespace {

void Describe(const ReplicaRecord& record, v1::GroupMember* member) {
  member->set_replica_id(record.replica.replica_id());
  member->set_rank(record.replica.rank());
  member->set_node_id(record.replica.node_id());
  member->set_address(record.address);
}

}  // namespace

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

absl::Status CheckJoin(const GroupMembers& members, int rank, absl::string_view address) {
  if (rank == 0 || !address.empty()) {
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
      if (!member->replica.joined()) Describe(*member, forming->add_missing());
    }
    return response;
  }
  v1::GroupFormed* formed = response.mutable_formed();
  std::set<std::string> nodes;
  for (const auto& member : members) {
    Describe(*member, formed->add_members());
    nodes.insert(member->replica.node_id());
  }
  formed->set_group(group);
  formed->set_rank(rank);
  formed->set_world_size(static_cast<int32_t>(members.size()));
  formed->set_num_nodes(static_cast<int32_t>(nodes.size()));
  formed->set_master_address(members[0]->address);
  return response;
}

bool SameSecret(absl::string_view a, absl::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned char difference = 0;
  for (size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  return difference == 0;
}

}  // namespace adaptdl::supervisor
