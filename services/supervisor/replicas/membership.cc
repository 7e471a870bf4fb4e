#include "services/supervisor/replicas/membership.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/jobs/planning.h"
#include "libs/rpc/retry_info.h"
#include "services/supervisor/calls/pages.h"
#include "services/supervisor/jobs/group.h"
#include "services/supervisor/jobs/orders.h"
#include "services/supervisor/jobs/secrets.h"
#include "services/supervisor/store/convert.h"

namespace adaptdl::supervisor {
namespace {

// Null: there is none.
const JobEntry* FindEntry(const Tables& tables, const std::string& name_space, const std::string& name) {
  const auto it = tables.by_name.find({NamespaceOr(name_space), name});
  return it == tables.by_name.end() ? nullptr : tables.jobs.at(it->second).get();
}

// What a replica that waits to be a member is to know.
v1::JoinGroupResponse DescribeForNewcomer(const Tables& tables, const JobEntry& job,
                                          const std::string& replica_id, bool omit_members) {
  v1::JoinGroupResponse response;
  // The newest plan that it is in.
  for (const jobs::Plan& plan : job.record.state.plans) {
    if (jobs::RankIn(plan, replica_id) < 0) continue;
    response.Clear();
    const GroupMembers members = MembersOf(job.replicas, plan);
    if (plan.offered && AreReachable(members)) {
      FillFormed(tables, job, members, plan.group, replica_id, response.mutable_formed());
      if (omit_members) response.mutable_formed()->clear_members();
    } else {
      *response.mutable_forming() = DescribeForming(job.replicas, plan);
    }
  }
  // In none, it may be wanted again.
  if (!response.has_formed()) response.mutable_forming();
  return response;
}

// -1: it is not the group's secret.
int RankByUrl(const JobRecord& job, const UrlIdentity& identity) {
  const auto token = job.tokens.find(job.state.group);
  const bool known = token != job.tokens.end() && SameSecret(UrlSecret(token->second), identity.secret);
  return known ? identity.rank : -1;
}

// Of a group that has met just now: how long that took, since its first replica was started. By the wall,
// since it is the nodes that say when their replicas started.
absl::Duration RendezvousTime(const GroupMembers& members, absl::Time wall) {
  absl::Time first = wall;
  for (const auto& member : members) {
    if (member->replica.has_start_time()) first = std::min(first, ToTime(member->replica.start_time()));
  }
  return wall - first;
}

}  // namespace

absl::StatusOr<ReplicaContext> Membership::Authorize(const v1::ReplicaIdentity& identity,
                                                     const std::string& token) const {
  absl::StatusOr<ReplicaContext> context = AuthorizeFor(identity, token, /*proven=*/false);
  if (proof_ == nullptr || !absl::IsUnauthenticated(context.status())) return context;
  if (const absl::Status status = proof_->Check(identity, token); !status.ok()) return status;
  return AuthorizeFor(identity, token, /*proven=*/true);
}

absl::StatusOr<ReplicaContext> Membership::AuthorizeFor(const v1::ReplicaIdentity& identity,
                                                        const std::string& token, bool proven) const {
  absl::StatusOr<ReplicaContext> context;
  core_->Read([&](const Tables& tables) {
    const JobEntry* job = FindEntry(tables, identity.namespace_(), identity.job());
    context = AuthorizeIn(job, identity, token, proven);
  });
  return context;
}

absl::StatusOr<ReplicaContext> Membership::AuthorizeIn(const JobEntry* job,
                                                       const v1::ReplicaIdentity& identity,
                                                       const std::string& token, bool proven) const {
  // One text for all: a stranger does not learn which jobs there are.
  const absl::Status refused = absl::UnauthenticatedError(
      "the group's token is missing or wrong; a replica sends what ADAPTDL_GROUP_TOKEN holds as "
      "\"authorization: Bearer <token>\"");
  if (job == nullptr) return refused;
  const auto secret = job->record.tokens.find(identity.group());
  if (!proven && (secret == job->record.tokens.end() || !SameSecret(secret->second, token))) return refused;
  const int index = FindMember(job->replicas, identity.replica_id());
  if (index < 0 && IsCurrent(*job, identity.group())) {
    return absl::PermissionDeniedError(absl::StrCat("replica \"", identity.replica_id(),
                                                    "\" is no member of group ", identity.group(),
                                                    " of job \"", identity.job(), "\""));
  }
  if (index < 0 || !IsCurrent(*job, job->record.state.group)) return GroupOver(identity.group());
  const ReplicaRecord& replica = *job->replicas[index];
  // The job goes on without those that were given up.
  if (!IsLive(replica.replica) || !MaySpeak(*job, replica, identity.group()))
    return GroupOver(identity.group());
  return ReplicaContext{job->record.uid(), identity.replica_id(), identity.group()};
}

bool Membership::MaySpeak(const JobEntry& job, const ReplicaRecord& replica, int64_t group) const {
  const int64_t current = job.record.state.group;
  const std::string& id = replica.replica.replica_id();
  for (const jobs::Plan& plan : job.record.state.plans) {
    if (plan.offered && plan.group == group) return jobs::RankIn(plan, id) >= 0;
  }
  const bool member = replica.replica.group() == current;
  // A newcomer knows the group that it was launched for until it is a member.
  if (!member) return !replica.stop_requested && group == replica.launch_group;
  if (group >= current) return group == current;
  // A member that is on its way from an older group.
  return sessions_->NewestGroup(id) < current;
}

absl::StatusOr<ReplicaContext> Membership::AuthorizeUrl(const UrlIdentity& identity) const {
  // One text for all: a stranger does not learn which jobs there are.
  absl::StatusOr<ReplicaContext> context = absl::NotFoundError("there is nothing here");
  core_->Read([&](const Tables& tables) {
    const JobEntry* job = FindEntry(tables, identity.name_space, identity.job);
    if (job == nullptr) return;
    const int64_t group = job->record.state.group;
    const GroupMembers members = MembersOf(job->replicas, group);
    const int rank = hosts_ != nullptr ? RankAt(members, identity.peer) : RankByUrl(job->record, identity);
    const bool member = rank >= 0 && rank < static_cast<int>(members.size());
    if (!IsCurrent(*job, group)) return;
    if (!member && hosts_ != nullptr && !AllHaveHosts(members)) {
      context = absl::UnavailableError("the addresses of some replicas are not known yet");
    }
    if (!member) return;
    const v1::Replica& replica = members[rank]->replica;
    if (IsLive(replica)) context = ReplicaContext{job->record.uid(), replica.replica_id(), group};
  });
  return context;
}

int Membership::RankAt(const GroupMembers& members, const std::string& host) const {
  int found = -1;
  if (host.empty()) return found;
  for (size_t rank = 0; rank < members.size(); ++rank) {
    if (hosts_->HostOf(members[rank]->replica.replica_id()) != host) continue;
    // Those in the network of their node can't be told apart.
    if (found >= 0) return -1;
    found = static_cast<int>(rank);
  }
  return found;
}

bool Membership::AllHaveHosts(const GroupMembers& members) const {
  return std::all_of(members.begin(), members.end(), [&](const auto& member) {
    return !hosts_->HostOf(member->replica.replica_id()).empty();
  });
}

std::string Membership::HostOf(const Tables& tables, const v1::Replica& replica) const {
  if (hosts_ != nullptr) return hosts_->HostOf(replica.replica_id());
  const auto node = tables.nodes.find(replica.node_id());
  return node == tables.nodes.end() ? "" : node->second->record.node.replica_host();
}

absl::Status Membership::JoinByUrl(const ReplicaContext& replica, int64_t restarts) {
  std::optional<std::string> address;
  core_->Read([&](const Tables& tables) {
    const auto it = tables.jobs.find(replica.job_uid);
    if (it == tables.jobs.end() || it->second->record.state.group != replica.group ||
        it->second->record.state.restarts != restarts) {
      return;
    }
    address = "";
    const ReplicaRecord& master = *it->second->replicas[0];
    const std::string host = HostOf(tables, master.replica);
    if (master.replica.replica_id() == replica.replica_id && !host.empty()) {
      address = absl::StrCat(host, ":", master.master_port);
    }
  });
  if (!address.has_value()) return absl::NotFoundError("there is no such group");
  return Join(replica, *address, false);
}

absl::StatusOr<std::vector<std::string>> Membership::FindHosts(const std::string& job_uid,
                                                               int64_t group) const {
  absl::StatusOr<std::vector<std::string>> hosts = absl::NotFoundError("there is no such group any more");
  core_->Read([&](const Tables& tables) {
    const auto it = tables.jobs.find(job_uid);
    if (it == tables.jobs.end() || !IsCurrent(*it->second, group)) return;
    const GroupMembers members = MembersOf(it->second->replicas, group);
    hosts = std::vector<std::string>();
    if (!GroupComplete(members)) return;
    for (const auto& member : members) {
      std::string host = HostOf(tables, member->replica);
      if (host.empty()) {
        hosts = absl::NotFoundError("a node of the group is gone");
        return;
      }
      hosts->push_back(std::move(host));
    }
  });
  return hosts;
}

absl::Status Membership::Join(const ReplicaContext& replica, const std::string& address,
                              bool rescales_in_place) {
  return core_->Update(
      [&](Transaction* transaction) { return JoinIn(transaction, replica, address, rescales_in_place); });
}

absl::Status Membership::JoinIn(Transaction* transaction, const ReplicaContext& replica,
                                const std::string& address, bool rescales_in_place) {
  const JobEntry* job = transaction->FindJob(replica.job_uid);
  const int index = job == nullptr ? -1 : FindMember(job->replicas, replica.replica_id);
  if (index < 0 || !IsCurrent(*job, job->record.state.group)) return GroupOver(replica.group);
  const ReplicaRecord& before = *job->replicas[index];
  const bool newcomer = before.replica.group() != job->record.state.group;
  if (newcomer && !rescales_in_place) {
    return absl::FailedPreconditionError(
        "rescales_in_place: this replica joins a group that trains; the program must be able to do that");
  }
  // Whoever re-scales in place may become rank 0.
  const GroupMembers members =
      newcomer ? GroupMembers{job->replicas[index]} : MembersOf(job->replicas, job->record.state.group);
  const absl::Status status = CheckJoin(members, newcomer ? 0 : index, address, rescales_in_place);
  if (!status.ok()) return status;
  const bool again = before.replica.joined();
  if (again && before.address == address && before.rescales_in_place == rescales_in_place) {
    return absl::OkStatus();
  }
  // Once per group is usual, and each time is stored.
  if (again && !limiter_->Take(replica.replica_id, transaction->now())) {
    return rpc::WithRetryDelay(
        absl::ResourceExhaustedError(absl::StrCat("address: replica \"", replica.replica_id,
                                                  "\" has given too many, this one \"", address,
                                                  "\"; give one per group, and wait before the next")),
        limiter_->Wait(replica.replica_id, transaction->now()));
  }
  // What is known of it before it joins was said to an earlier supervisor, when its group met.
  const bool met_before = !again && before.rescales_in_place;
  ReplicaRecord* record = transaction->EditReplica(replica.job_uid, index);
  record->address = address;
  record->rescales_in_place = rescales_in_place;
  record->replica.set_joined(true);
  if (!newcomer && !met_before) NoteMet(transaction, replica.job_uid, again);
  NoteJoined(transaction, replica.job_uid, newcomer);
  return absl::OkStatus();
}

void Membership::NoteMet(Transaction* transaction, const std::string& uid, bool again) {
  const JobEntry* job = transaction->FindJob(uid);
  const int64_t group = job->record.state.group;
  const GroupMembers members = MembersOf(job->replicas, group);
  if (!GroupComplete(members)) return;
  const jobs::Event event = {false, "RendezvousComplete",
                             absl::StrCat("all ", members.size(), " members of group ", group, " have met"),
                             "", ""};
  again ? limiter_->Report(transaction, uid, event) : transaction->AddEvent(uid, event);
  if (!job->record.progress.has_value()) {
    jobs::Job measured = job->record.state;
    jobs::EndRescale(transaction->now(), &measured);
    SetState(std::move(measured), transaction->moment(), &transaction->EditJob(uid)->record);
  }
  const absl::Duration time = RendezvousTime(members, transaction->wall());
  transaction->EffectsOf(uid)->reports.emplace_back([time](Metrics* metrics) {
    if (metrics != nullptr) metrics->ObserveRendezvous(time);
  });
}

void Membership::NoteJoined(Transaction* transaction, const std::string& uid, bool newcomer) {
  const JobEntry* job = transaction->FindJob(uid);
  const GroupMembers members = MembersOf(job->replicas, job->record.state.group);
  const bool told = TellOwedPlans(transaction, uid);
  // One of many who come to a group that starts changes nothing else.
  if (newcomer || told || AreReachable(members)) {
    reconciler_->Reconcile(transaction, uid);
  } else if (!WorthTelling(members)) {
    transaction->KeepQuiet();
  }
}

bool Membership::TellOwedPlans(Transaction* transaction, const std::string& uid) {
  const JobEntry& job = *transaction->FindJob(uid);
  if (!AreReachable(PlannedMembers(job))) return false;
  for (const auto& replica : job.replicas) {
    const std::string& id = replica->replica.replica_id();
    if (sessions_->OwesPlan(id)) Orders::TellPlan(transaction, job, id);
  }
  return true;
}

absl::StatusOr<v1::JoinGroupResponse> Membership::DescribeRendezvous(const ReplicaContext& replica,
                                                                     bool omit_members) {
  absl::StatusOr<v1::JoinGroupResponse> response;
  core_->Read([&](const Tables& tables) { response = DescribeFor(tables, replica, omit_members); });
  return response;
}

absl::StatusOr<v1::JoinGroupResponse> Membership::DescribeFor(const Tables& tables,
                                                              const ReplicaContext& replica,
                                                              bool omit_members) {
  const auto it = tables.jobs.find(replica.job_uid);
  if (it == tables.jobs.end()) return GroupOver(replica.group);
  const JobEntry& job = *it->second;
  const std::shared_ptr<const GroupView> view = views_.ViewOf(tables, it->second);
  const auto place = view->places.find(replica.replica_id);
  if (place == view->places.end()) return GroupOver(replica.group);
  const jobs::Job& state = job.record.state;
  const ReplicaRecord& record = *job.replicas[place->second];
  if (!IsCurrent(job, state.group) || !IsLive(record.replica)) return GroupOver(replica.group);
  const bool member = record.replica.group() == state.group;
  if (!member) {
    if (record.stop_requested) return GroupOver(replica.group);
    return DescribeForNewcomer(tables, job, replica.replica_id, omit_members);
  }
  // A group that is being stopped will never be complete.
  if (state.phase == jobs::Phase::kStopping && !view->members.has_formed()) {
    return absl::AbortedError(absl::StrCat("group ", state.group, " is being stopped: ", state.message));
  }
  v1::JoinGroupResponse response = omit_members ? view->brief : view->members;
  if (response.has_formed()) {
    response.mutable_formed()->set_rank(place->second);
    response.mutable_formed()->set_token(job.record.tokens.at(state.group));
  }
  return response;
}

absl::Status Membership::Enter(Transaction* transaction, const ReplicaContext& replica) {
  const JobEntry* job = transaction->FindJob(replica.job_uid);
  if (job == nullptr || !IsCurrent(*job, job->record.state.group)) return GroupOver(replica.group);
  if (replica.group <= job->record.state.group) return absl::OkStatus();
  const std::optional<jobs::Entered> entered = jobs::EnterGroup(job->record.state, replica.group);
  const bool known = entered.has_value() && FindMember(job->replicas, replica.replica_id) >= 0;
  if (!known) return GroupOver(replica.group);
  Orders::Enter(transaction, replica.job_uid, *entered);
  reconciler_->Reconcile(transaction, replica.job_uid);
  std::erase_if(transaction->EditJob(replica.job_uid)->broken,
                [&](const auto& report) { return report.second.group < replica.group; });
  return absl::OkStatus();
}

absl::StatusOr<Instructions> Membership::InstructionsFor(const Tables& tables,
                                                         const ReplicaContext& replica) const {
  const auto it = tables.jobs.find(replica.job_uid);
  if (it == tables.jobs.end()) return GroupOver(replica.group);
  const JobEntry& job = *it->second;
  const int64_t current = job.record.state.group;
  const int index = FindMember(job.replicas, replica.replica_id);
  if (index < 0 || !IsCurrent(job, current) || !IsLive(job.replicas[index]->replica)) {
    return GroupOver(replica.group);
  }
  const ReplicaRecord& record = *job.replicas[index];
  if (!MaySpeak(job, record, replica.group)) return GroupOver(replica.group);
  Instructions instructions;
  instructions.stop = record.stop_requested;
  const bool member = record.replica.group() == current;
  instructions.leads = member && record.replica.rank() == 0;
  const bool offered = std::any_of(job.record.state.plans.begin(), job.record.state.plans.end(),
                                   [](const jobs::Plan& plan) { return plan.offered; });
  const bool behind = member && (offered || replica.group < current);
  const bool reachable = behind && AreReachable(PlannedMembers(job));
  sessions_->NoteOwesPlan(replica.replica_id, behind && !reachable);
  if (reachable) {
    instructions.plan = DescribePlan(tables, job, replica.replica_id);
    instructions.reason = job.record.state.message;
  }
  if (replica.group == current) sessions_->NoteGroup(replica.replica_id, current);
  return instructions;
}

absl::StatusOr<Instructions> Membership::Attach(const ReplicaContext& replica, bool trains) {
  if (trains) {
    const absl::Status entered =
        core_->Update([&](Transaction* transaction) { return Enter(transaction, replica); });
    if (!entered.ok()) return entered;
  }
  absl::StatusOr<Instructions> instructions;
  core_->Read([&](const Tables& tables) { instructions = InstructionsFor(tables, replica); });
  return instructions;
}

}  // namespace adaptdl::supervisor
