// What training processes say: who they are, that they have joined, what they have learnt, how far they are.

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/util/message_differencer.h"
#include "libs/rpc/retry_info.h"
#include "libs/service/log.h"
#include "services/supervisor/cluster_state.h"
#include "services/supervisor/convert.h"
#include "services/supervisor/rendezvous.h"
#include "services/supervisor/validation.h"

namespace adaptdl::supervisor {
namespace {

using google::protobuf::util::MessageDifferencer;

absl::Status GroupOver(int64_t group) {
  return absl::AbortedError(absl::StrCat("group ", group, " is over; this replica must stop"));
}

// Whether the group is the one that the job works with now.
bool IsCurrent(const JobEntry& job, int64_t group) {
  return !IsTerminal(job.record.status.phase()) && job.record.status.group() == group &&
         !job.record.status.allocation().empty();
}

// Null: there is none.
const JobEntry* FindEntry(const Tables& tables, const std::string& name_space, const std::string& name) {
  const auto it = tables.by_name.find({NamespaceOr(name_space), name});
  return it == tables.by_name.end() ? nullptr : tables.jobs.at(it->second).get();
}

}  // namespace

absl::StatusOr<ReplicaContext> ClusterState::Authorize(const v1::ReplicaIdentity& identity,
                                                       const std::string& token) const {
  // One text for all: a stranger does not learn which jobs there are.
  const absl::Status refused = absl::UnauthenticatedError(
      "the group's token is missing or wrong; a replica sends what ADAPTDL_GROUP_TOKEN holds as "
      "\"authorization: Bearer <token>\"");
  MutexLock lock(&mutex_);
  const JobEntry* job = FindEntry(tables_, identity.namespace_(), identity.job());
  if (job == nullptr) return refused;
  const auto secret = job->record.tokens.find(identity.group());
  if (secret == job->record.tokens.end() || !SameSecret(secret->second, token)) return refused;
  const v1::JobStatus& status = job->record.status;
  const int index = FindMember(job->replicas, identity.replica_id());
  if (index < 0 && IsCurrent(*job, identity.group())) {
    return absl::PermissionDeniedError(absl::StrCat("replica \"", identity.replica_id(),
                                                    "\" is no member of group ", identity.group(),
                                                    " of job \"", identity.job(), "\""));
  }
  if (index < 0 || !IsCurrent(*job, status.group())) return GroupOver(identity.group());
  const ReplicaRecord& replica = *job->replicas[index];
  // The job goes on without those that were given up.
  if (!IsLive(replica.replica) || !MaySpeak(*job, replica, identity.group()))
    return GroupOver(identity.group());
  return ReplicaContext{job->record.uid(), identity.replica_id(), identity.group()};
}

bool ClusterState::MaySpeak(const JobEntry& job, const ReplicaRecord& replica, int64_t group) const {
  const int64_t current = job.record.status.group();
  const std::string& id = replica.replica.replica_id();
  for (const jobs::Plan& plan : job.record.plans) {
    if (plan.offered && plan.group == group) return jobs::RankIn(plan, id) >= 0;
  }
  const bool member = replica.replica.group() == current;
  // A newcomer knows the group that it was launched for until it is a member.
  if (!member) return !replica.stop_requested && group == replica.launch_group;
  if (group >= current) return group == current;
  // A member that is on its way from an older group.
  const auto entered = entered_.find(id);
  return entered == entered_.end() || entered->second < current;
}

void ClusterState::ServeAdaptdl(const std::string& url) {
  MutexLock lock(&mutex_);
  http_url_ = url;
}

absl::StatusOr<ReplicaContext> ClusterState::AuthorizeUrl(const UrlIdentity& identity) const {
  // One text for all: a stranger does not learn which jobs there are.
  const absl::Status refused = absl::NotFoundError("there is nothing here");
  MutexLock lock(&mutex_);
  const JobEntry* job = FindEntry(tables_, identity.name_space, identity.job);
  if (job == nullptr) return refused;
  const int64_t group = job->record.status.group();
  const auto token = job->record.tokens.find(group);
  if (token == job->record.tokens.end() || !SameSecret(UrlSecret(token->second), identity.secret))
    return refused;
  const GroupMembers members = MembersOf(job->replicas, group);
  if (!IsCurrent(*job, group) || identity.rank < 0 || identity.rank >= static_cast<int>(members.size())) {
    return refused;
  }
  const v1::Replica& replica = members[identity.rank]->replica;
  if (!IsLive(replica)) return refused;
  return ReplicaContext{job->record.uid(), replica.replica_id(), group};
}

absl::Status ClusterState::JoinByUrl(const ReplicaContext& replica, int64_t restarts) {
  std::string address;
  {
    MutexLock lock(&mutex_);
    const auto it = tables_.jobs.find(replica.job_uid);
    if (it == tables_.jobs.end() || it->second->record.status.group() != replica.group ||
        it->second->record.status.restarts() != restarts) {
      return absl::NotFoundError("there is no such group");
    }
    const JobEntry& job = *it->second;
    const ReplicaRecord& master = *job.replicas[0];
    const auto node = tables_.nodes.find(master.replica.node_id());
    if (master.replica.replica_id() == replica.replica_id && node != tables_.nodes.end()) {
      address = absl::StrCat(node->second->record.node.replica_host(), ":", master.master_port);
    }
  }
  return JoinGroup(replica, address, false);
}

absl::StatusOr<std::vector<std::string>> ClusterState::FindHosts(const std::string& job_uid,
                                                                 int64_t group) const {
  MutexLock lock(&mutex_);
  const auto it = tables_.jobs.find(job_uid);
  if (it == tables_.jobs.end() || !IsCurrent(*it->second, group)) {
    return absl::NotFoundError("there is no such group any more");
  }
  const GroupMembers members = MembersOf(it->second->replicas, group);
  std::vector<std::string> hosts;
  if (!GroupComplete(members)) return hosts;
  for (const auto& member : members) {
    const auto node = tables_.nodes.find(member->replica.node_id());
    if (node == tables_.nodes.end()) return absl::NotFoundError("a node of the group is gone");
    hosts.push_back(node->second->record.node.replica_host());
  }
  return hosts;
}

absl::Status ClusterState::JoinGroup(const ReplicaContext& replica, const std::string& address,
                                     bool rescales_in_place) {
  MutexLock lock(&mutex_);
  Transaction transaction(tables_, Now());
  const JobEntry* job = transaction.FindJob(replica.job_uid);
  const int index = job == nullptr ? -1 : FindMember(job->replicas, replica.replica_id);
  if (index < 0 || !IsCurrent(*job, job->record.status.group())) return GroupOver(replica.group);
  const ReplicaRecord& before = *job->replicas[index];
  const bool newcomer = before.replica.group() != job->record.status.group();
  if (newcomer && !rescales_in_place) {
    return absl::FailedPreconditionError(
        "rescales_in_place: this replica joins a group that trains; the program must be able to do that");
  }
  // Whoever re-scales in place may become rank 0.
  const GroupMembers members =
      newcomer ? GroupMembers{job->replicas[index]} : MembersOf(job->replicas, job->record.status.group());
  const absl::Status status = CheckJoin(members, newcomer ? 0 : index, address, rescales_in_place);
  if (!status.ok()) return status;
  const bool again = before.replica.joined();
  if (again && before.address == address && before.rescales_in_place == rescales_in_place) {
    return absl::OkStatus();
  }
  // Once per group is usual, and each time is stored.
  if (again && !reports_.Take(replica.replica_id, transaction.now())) {
    return rpc::WithRetryDelay(
        absl::ResourceExhaustedError(absl::StrCat("address: replica \"", replica.replica_id,
                                                  "\" has given too many, this one \"", address,
                                                  "\"; give one per group, and wait before the next")),
        reports_.Wait(replica.replica_id, transaction.now()));
  }
  ReplicaRecord* record = transaction.EditReplica(replica.job_uid, index);
  record->address = address;
  record->rescales_in_place = rescales_in_place;
  record->replica.set_joined(true);
  job = transaction.FindJob(replica.job_uid);
  const int64_t group = job->record.status.group();
  const GroupMembers now = MembersOf(job->replicas, group);
  const bool complete = !newcomer && GroupComplete(now);
  if (complete) {
    const jobs::Event event = {false, "RendezvousComplete",
                               absl::StrCat("all ", now.size(), " members of group ", group, " have met"), "",
                               ""};
    again ? Report(&transaction, replica.job_uid, event) : transaction.AddEvent(replica.job_uid, event);
    if (!job->record.status.has_progress()) {
      jobs::Job measured = ToJob(job->record);
      jobs::EndRescale(transaction.now(), &measured);
      StoreJob(measured, transaction.moment(), &transaction.EditJob(replica.job_uid)->record);
    }
  }
  // One of many who come to a group that starts changes nothing else.
  if (newcomer || complete) {
    Settle(&transaction, replica.job_uid);
  } else if (!WorthTelling(now)) {
    transaction.KeepQuiet();
  }
  if (const absl::Status stored = Commit(&transaction); !stored.ok()) return stored;
  Metrics* metrics = metrics_;
  if (complete && metrics != nullptr) {
    // By the wall, since it is the nodes that say when their replicas started.
    const absl::Time wall = transaction.wall();
    absl::Time first = wall;
    for (const auto& member : now) {
      if (member->replica.has_start_time()) first = std::min(first, ToTime(member->replica.start_time()));
    }
    metrics->ObserveRendezvous(wall - first);
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::JoinGroupResponse> ClusterState::DescribeRendezvous(const ReplicaContext& replica,
                                                                       bool omit_members) const {
  MutexLock lock(&mutex_);
  const auto it = tables_.jobs.find(replica.job_uid);
  if (it == tables_.jobs.end()) return GroupOver(replica.group);
  const JobEntry& job = *it->second;
  const GroupView& view = ViewOf(it->second);
  const auto place = view.places.find(replica.replica_id);
  if (place == view.places.end()) return GroupOver(replica.group);
  const v1::JobStatus& status = job.record.status;
  const ReplicaRecord& record = *job.replicas[place->second];
  if (!IsCurrent(job, status.group()) || !IsLive(record.replica)) return GroupOver(replica.group);
  v1::JoinGroupResponse response;
  const bool member = record.replica.group() == status.group();
  if (!member) {
    if (record.stop_requested) return GroupOver(replica.group);
    // The newest plan that it is in.
    for (const jobs::Plan& plan : job.record.plans) {
      if (jobs::RankIn(plan, replica.replica_id) < 0) continue;
      response.Clear();
      if (plan.offered) {
        FillFormed(job, MembersOf(job.replicas, plan), plan.group, replica.replica_id,
                   response.mutable_formed());
        if (omit_members) response.mutable_formed()->clear_members();
      } else {
        *response.mutable_forming() = DescribeForming(job.replicas, plan);
      }
    }
    // In none, it may be wanted again.
    if (!response.has_formed()) response.mutable_forming();
    return response;
  }
  // A group that is being stopped will never be complete.
  if (status.phase() == v1::JOB_PHASE_STOPPING && !view.members.has_formed()) {
    return absl::AbortedError(
        absl::StrCat("group ", status.group(), " is being stopped: ", status.message()));
  }
  response = omit_members ? view.brief : view.members;
  if (response.has_formed()) {
    response.mutable_formed()->set_rank(place->second);
    response.mutable_formed()->set_token(job.record.tokens.at(status.group()));
  }
  return response;
}

const ClusterState::GroupView& ClusterState::ViewOf(const std::shared_ptr<const JobEntry>& job) const {
  constexpr size_t kMostViews = 64;
  if (views_.size() >= kMostViews && views_.count(job->record.uid()) == 0) views_.clear();
  GroupView& view = views_[job->record.uid()];
  if (view.job == job) return view;
  view = GroupView{job, {}, {}, {}};
  for (size_t i = 0; i < job->replicas.size(); ++i) {
    view.places[job->replicas[i]->replica.replica_id()] = static_cast<int>(i);
  }
  const int64_t group = job->record.status.group();
  const GroupMembers members = MembersOf(job->replicas, group);
  view.members = DescribeGroup(members, group, -1);
  if (view.members.has_formed()) FillFormed(*job, members, group, "", view.members.mutable_formed());
  view.brief = view.members;
  if (view.brief.has_formed()) view.brief.mutable_formed()->clear_members();
  return view;
}

void ClusterState::FillFormed(const JobEntry& job,
                              const std::vector<std::shared_ptr<const ReplicaRecord>>& members, int64_t group,
                              const std::string& replica_id, v1::GroupFormed* formed) const {
  const int rank = FindMember(members, replica_id);
  *formed = DescribeFormed(members, group, rank);
  for (const std::string& type : GpuTypesOf(job, members)) formed->add_gpu_types(type);
  for (const auto& member : members) {
    const bool newcomer = member->replica.group() != job.record.status.group();
    formed->set_newcomers(formed->newcomers() + (newcomer ? 1 : 0));
  }
  if (rank >= 0) formed->set_token(job.record.tokens.at(group));
}

std::set<std::string> ClusterState::GpuTypesOf(
    const JobEntry& job, const std::vector<std::shared_ptr<const ReplicaRecord>>& members) const {
  std::set<std::string> types;
  // On a node with GPUs, a program that has asked for none computes without.
  if (job.record.job->spec().template_().resources().gpus() == 0) return types;
  for (const auto& replica : members) {
    const auto node = tables_.nodes.find(replica->replica.node_id());
    if (node == tables_.nodes.end() || node->second->record.node.gpu_type().empty()) continue;
    types.insert(node->second->record.node.gpu_type());
  }
  return types;
}

absl::StatusOr<Orders> ClusterState::AttachReplica(const ReplicaContext& replica, bool trains) {
  MutexLock lock(&mutex_);
  Transaction transaction(tables_, Now());
  const JobEntry* job = transaction.FindJob(replica.job_uid);
  if (job == nullptr || !IsCurrent(*job, job->record.status.group())) return GroupOver(replica.group);
  if (trains && replica.group > job->record.status.group()) {
    const std::optional<jobs::Entered> entered = jobs::EnterGroup(ToJob(job->record), replica.group);
    const bool known = entered.has_value() && FindMember(job->replicas, replica.replica_id) >= 0;
    if (!known) return GroupOver(replica.group);
    Enter(&transaction, replica.job_uid, *entered);
    Settle(&transaction, replica.job_uid);
    if (const absl::Status status = Commit(&transaction); !status.ok()) return status;
    std::map<std::string, BrokenReport>& reports = broken_[replica.job_uid];
    for (auto it = reports.begin(); it != reports.end();) {
      it = it->second.group < replica.group ? reports.erase(it) : std::next(it);
    }
    if (reports.empty()) broken_.erase(replica.job_uid);
  }
  const JobEntry& now = *tables_.jobs.at(replica.job_uid);
  const int index = FindMember(now.replicas, replica.replica_id);
  if (index < 0 || !IsLive(now.replicas[index]->replica)) return GroupOver(replica.group);
  const ReplicaRecord& record = *now.replicas[index];
  if (!MaySpeak(now, record, replica.group)) return GroupOver(replica.group);
  const int64_t current = now.record.status.group();
  if (replica.group == current) entered_[replica.replica_id] = current;
  Orders orders;
  orders.stop = record.stop_requested;
  const bool member = record.replica.group() == current;
  orders.leads = member && record.replica.rank() == 0;
  const bool offered = std::any_of(now.record.plans.begin(), now.record.plans.end(),
                                   [](const jobs::Plan& plan) { return plan.offered; });
  if (member && (offered || replica.group < current)) {
    orders.plan = DescribePlan(now, replica.replica_id);
    orders.reason = now.record.status.message();
  }
  return orders;
}

absl::Status ClusterState::ObserveBroken(const ReplicaContext& replica, int64_t group,
                                         const std::string& reason) {
  MutexLock lock(&mutex_);
  Transaction transaction(tables_, Now());
  const JobEntry* job = transaction.FindJob(replica.job_uid);
  if (job == nullptr || IsTerminal(job->record.status.phase())) return GroupOver(replica.group);
  // It has gone on since, or will: there is a newer one.
  if (group < job->record.status.group()) return absl::OkStatus();
  BrokenReport& report = broken_[replica.job_uid][replica.replica_id];
  if (report.group == group) return absl::OkStatus();
  report = {group, transaction.now()};
  // The next step looks at the job in any case.
  if (!reports_.Take(replica.replica_id, report.since)) return absl::OkStatus();
  log::Warning("group broken",
               {{"job", absl::StrCat(job->record.job->namespace_(), "/", job->record.job->name())},
                {"group", absl::StrCat(group)},
                {"replica", replica.replica_id},
                {"reason", reason}});
  Settle(&transaction, replica.job_uid);
  return transaction.empty() ? absl::OkStatus() : Commit(&transaction);
}

absl::Status ClusterState::ObserveRescale(const ReplicaContext& replica, const v1::RescaleTimes& times) {
  if (const absl::Status status = ValidateRescaleTimes(times); !status.ok()) return status;
  MutexLock lock(&mutex_);
  Transaction transaction(tables_, Now());
  const JobEntry* entry = transaction.FindJob(replica.job_uid);
  if (entry == nullptr) return GroupOver(replica.group);
  jobs::Job job = ToJob(entry->record);
  jobs::Event event;
  const jobs::RescaleTimes measured = {times.group(), ToDuration(times.agree()), ToDuration(times.rebuild()),
                                       ToDuration(times.synchronize()), ToDuration(times.first_step())};
  if (!jobs::ObserveRescale(measured, &job, &event)) return absl::OkStatus();
  StoreJob(job, transaction.moment(), &transaction.EditJob(replica.job_uid)->record);
  transaction.AddEvent(replica.job_uid, event);
  transaction.effects()->rescale_phases = {{"agree", measured.agree},
                                           {"rebuild", measured.rebuild},
                                           {"synchronize", measured.synchronize},
                                           {"first_step", measured.first_step}};
  return Commit(&transaction);
}

absl::Status ClusterState::ObserveTraining(const ReplicaContext& replica) {
  MutexLock lock(&mutex_);
  Transaction transaction(tables_, Now());
  const absl::Time now = transaction.now();
  const JobEntry* entry = transaction.FindJob(replica.job_uid);
  if (entry == nullptr || IsTerminal(entry->record.status.phase())) return GroupOver(replica.group);
  // The last words of a group that is being stopped, or that others have left, say nothing about the next
  // one.
  const bool old =
      !IsCurrent(*entry, replica.group) || entry->record.status.phase() == v1::JOB_PHASE_STOPPING;
  if (old || entry->record.rescaling_since == absl::InfinitePast()) return absl::OkStatus();
  jobs::Job job = ToJob(entry->record);
  jobs::EndRescale(now, &job);
  StoreJob(job, transaction.moment(), &transaction.EditJob(replica.job_uid)->record);
  return Commit(&transaction);
}

absl::Status ClusterState::ReportHints(const ReplicaContext& replica, const v1::Hints& hints) {
  if (const absl::Status status = ValidateHints(hints); !status.ok()) {
    NoteRefusedReport(replica, "hints", status);
    return status;
  }
  MutexLock lock(&mutex_);
  new_hints_[replica.job_uid] = hints;
  return absl::OkStatus();
}

void ClusterState::NoteRefusedReport(const ReplicaContext& replica, const std::string& kind,
                                     const absl::Status& why) {
  if (Metrics* metrics = metrics_) metrics->CountRefusedReport(kind);
  MutexLock lock(&mutex_);
  if (tables_.jobs.count(replica.job_uid) == 0 || !told_of_reports_.insert(replica.job_uid).second) return;
  Transaction transaction(tables_, Now());
  const ReplicaRecord* record = nullptr;
  for (const auto& member : transaction.FindJob(replica.job_uid)->replicas) {
    if (member->replica.replica_id() == replica.replica_id) record = member.get();
  }
  transaction.AddEvent(
      replica.job_uid,
      {true, "ReportRefused",
       absl::StrCat(kind,
                    " that its program reports make no sense and are left aside, as all such from "
                    "now on: ",
                    why.message()),
       record == nullptr ? "" : record->replica.node_id(), replica.replica_id});
  // Without the event the report is refused all the same.
  Commit(&transaction).IgnoreError();
}

void ClusterState::Flush() {
  MutexLock lock(&mutex_);
  const Moment now = Now();
  if (now < next_flush_) return;
  next_flush_ = now + options_.flush_period;
  const std::map<std::string, v1::TrainingProgress> progress = parts_.sessions->TakeProgress();
  if (progress.empty() && new_hints_.empty()) return;
  Transaction transaction(tables_, now);
  for (const auto& [uid, value] : progress) StoreProgress(&transaction, uid, value);
  for (const auto& [uid, hints] : new_hints_) {
    const JobEntry* job = transaction.FindJob(uid);
    if (job == nullptr || MessageDifferencer::Equals(job->record.status.hints(), hints)) continue;
    *transaction.EditJob(uid)->record.status.mutable_hints() = hints;
    transaction.ShowToAllocator();
  }
  if (!transaction.empty() && !Commit(&transaction).ok()) {
    parts_.sessions->ReturnProgress(progress);
    return;
  }
  new_hints_.clear();
}

void ClusterState::StoreProgress(Transaction* transaction, const std::string& uid,
                                 const v1::TrainingProgress& progress) {
  const JobEntry* before = transaction->FindJob(uid);
  if (before == nullptr || MessageDifferencer::Equals(before->record.status.progress(), progress)) return;
  v1::JobStatus* status = &transaction->EditJob(uid)->record.status;
  *status->mutable_progress() = progress;
  status->clear_estimated_completion_time();
  if (progress.fraction() < 0 || IsTerminal(status->phase())) return;
  const std::optional<absl::Duration> left =
      paces_[uid].Observe(status->group(), progress.fraction(), transaction->now());
  if (!left.has_value()) return;
  *status->mutable_estimated_completion_time() = ToProto(transaction->wall() + *left);
}

}  // namespace adaptdl::supervisor
