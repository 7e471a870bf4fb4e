#include "services/supervisor/jobs/group.h"

#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "libs/jobs/planning.h"
#include "services/supervisor/calls/validation.h"
#include "services/supervisor/store/convert.h"

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

// Distinct types of the GPUs that these replicas of the job compute on.
std::set<std::string> GpuTypesOf(const Tables& tables, const JobEntry& job, const GroupMembers& members) {
  std::set<std::string> types;
  // On a node with GPUs, a program that has asked for none computes without.
  if (job.record.job->spec().template_().resources().gpus() == 0) return types;
  for (const auto& replica : members) {
    const auto node = tables.nodes.find(replica->replica.node_id());
    if (node == tables.nodes.end() || node->second->record.node.gpu_type().empty()) continue;
    types.insert(node->second->record.node.gpu_type());
  }
  return types;
}

// Null: there is none.
const jobs::Plan* NewestOffered(const JobEntry& job) {
  const jobs::Plan* newest = nullptr;
  for (const jobs::Plan& plan : job.record.state.plans) {
    if (plan.offered) newest = &plan;
  }
  return newest;
}

}  // namespace

absl::Status GroupOver(int64_t group) {
  return absl::AbortedError(absl::StrCat("group ", group, " is over; this replica must stop"));
}

bool IsCurrent(const JobEntry& job, int64_t group) {
  return !jobs::IsTerminal(job.record.state.phase) && job.record.state.group == group &&
         !job.record.state.allocation.empty();
}

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

GroupSize SizeOfGroup(const JobEntry& job, const std::string& replica_id) {
  std::set<std::string> nodes;
  int replicas = 0;
  for (const auto& member : job.replicas) {
    if (member->replica.group() != job.record.state.group) continue;
    nodes.insert(member->replica.node_id());
    ++replicas;
  }
  for (const jobs::Plan& plan : job.record.state.plans) {
    if (jobs::RankIn(plan, replica_id) < 0) continue;
    const std::vector<std::string> planned = jobs::NodesOf(plan.members);
    nodes = {planned.begin(), planned.end()};
    replicas = static_cast<int>(planned.size());
  }
  return {replicas, static_cast<int>(nodes.size())};
}

void FillFormed(const Tables& tables, const JobEntry& job, const GroupMembers& members, int64_t group,
                const std::string& replica_id, v1::GroupFormed* formed) {
  const int rank = FindMember(members, replica_id);
  *formed = DescribeFormed(members, group, rank);
  for (const std::string& type : GpuTypesOf(tables, job, members)) formed->add_gpu_types(type);
  for (const auto& member : members) {
    const bool newcomer = member->replica.group() != job.record.state.group;
    formed->set_newcomers(formed->newcomers() + (newcomer ? 1 : 0));
  }
  if (rank >= 0) formed->set_token(job.record.tokens.at(group));
}

GroupMembers PlannedMembers(const JobEntry& job) {
  const jobs::Plan* plan = NewestOffered(job);
  return plan == nullptr ? MembersOf(job.replicas, job.record.state.group) : MembersOf(job.replicas, *plan);
}

bool AreReachable(const GroupMembers& members) {
  return std::all_of(members.begin(), members.end(),
                     [](const auto& member) { return member->replica.joined() || !IsLive(member->replica); });
}

v1::GroupPlan DescribePlan(const Tables& tables, const JobEntry& job, const std::string& replica_id) {
  const jobs::Plan* plan = NewestOffered(job);
  const int64_t group = plan == nullptr ? job.record.state.group : plan->group;
  v1::GroupPlan result;
  result.set_broken(plan != nullptr && plan->broken);
  FillFormed(tables, job, PlannedMembers(job), group, replica_id, result.mutable_formed());
  return result;
}

}  // namespace adaptdl::supervisor
