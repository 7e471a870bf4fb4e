#include "services/supervisor/jobs/orders.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/jobs/planning.h"
#include "libs/jobs/replica_id.h"
#include "libs/jobspec/launch_variables.h"
#include "services/supervisor/jobs/api_tokens.h"
#include "services/supervisor/jobs/secrets.h"
#include "services/supervisor/store/convert.h"

namespace adaptdl::supervisor {
namespace {

constexpr size_t kKeptTokens = 8;

std::shared_ptr<const ReplicaRecord> LostNewcomer(const std::string& uid, const jobs::Entered& entered,
                                                  int rank) {
  auto record = std::make_shared<ReplicaRecord>();
  record->job_uid = uid;
  record->launch_group = entered.job.group;
  record->launch_rank = rank;
  record->loss = jobs::LossCause::kVanished;
  record->end_handled = true;
  record->replica.set_replica_id(entered.members[rank]);
  record->replica.set_node_id(entered.job.allocation[rank]);
  record->replica.set_state(v1::REPLICA_STATE_LOST);
  return record;
}

}  // namespace

void Orders::ServeAdaptdl(const std::string& url, bool known_by_host) {
  MutexLock lock(&mutex_);
  http_ = {url, known_by_host};
}

Orders::AdaptdlHttp Orders::http() const {
  MutexLock lock(&mutex_);
  return http_;
}

int Orders::MasterPortOf(const Transaction& transaction, const jobs::LaunchGroup& launch) const {
  const AdaptdlHttp http = this->http();
  if (http.url.empty()) return 0;
  return http.known_by_host ? jobspec::MasterPort(launch.group) : ChoosePort(transaction, launch.nodes[0]);
}

void Orders::Launch(Transaction* transaction, const std::string& uid, const jobs::LaunchGroup& launch) const {
  JobEntry* job = transaction->EditJob(uid);
  for (const auto& replica : job->replicas)
    transaction->EffectsOf(uid)->fenced.push_back(replica->replica.replica_id());
  MintTokens(job);
  job->replicas.clear();
  job->broken.clear();
  for (size_t rank = 0; rank < launch.nodes.size(); ++rank) {
    auto record = std::make_shared<ReplicaRecord>();
    record->job_uid = uid;
    record->launch_group = launch.group;
    record->launch_rank = static_cast<int>(rank);
    v1::Replica* replica = &record->replica;
    replica->set_replica_id(jobs::ReplicaId(jobs::ReplicaIdPrefix(job->record.job->name(), uid), launch.group,
                                            static_cast<int>(rank)));
    replica->set_group(launch.group);
    replica->set_rank(static_cast<int32_t>(rank));
    replica->set_node_id(launch.nodes[rank]);
    replica->set_state(v1::REPLICA_STATE_LAUNCHING);
    if (rank == 0) record->master_port = MasterPortOf(*transaction, launch);
    job->replicas.push_back(std::move(record));
  }
  if (launch.nodes.empty()) return;
  const GroupSize size = SizeOfGroup(*job, job->replicas[0]->replica.replica_id());
  for (size_t rank = 0; rank < launch.nodes.size(); ++rank) {
    transaction->EffectsOf(uid)->launches.emplace_back(launch.nodes[rank],
                                                       LaunchCommand(*job, static_cast<int>(rank), size));
  }
}

void Orders::LaunchNewcomer(Transaction* transaction, const std::string& uid,
                            const jobs::LaunchNewcomer& launch) const {
  JobEntry* job = transaction->EditJob(uid);
  auto record = std::make_shared<ReplicaRecord>();
  record->job_uid = uid;
  record->launch_group = launch.group;
  record->launch_rank = launch.rank;
  record->replica.set_replica_id(launch.replica_id);
  record->replica.set_group(launch.group);
  record->replica.set_rank(static_cast<int32_t>(launch.rank));
  record->replica.set_node_id(launch.node);
  record->replica.set_state(v1::REPLICA_STATE_LAUNCHING);
  job->replicas.push_back(std::move(record));
  LaunchAgain(transaction, *job, static_cast<int>(job->replicas.size()) - 1);
}

void Orders::LaunchAgain(Transaction* transaction, const JobEntry& job, int index) const {
  const v1::Replica& replica = job.replicas[index]->replica;
  transaction->EffectsOf(job.record.uid())
      ->launches.emplace_back(replica.node_id(),
                              LaunchCommand(job, index, SizeOfGroup(job, replica.replica_id())));
}

void Orders::MintTokens(JobEntry* job) const {
  std::map<int64_t, std::string>& tokens = job->record.tokens;
  const auto mint = [&](int64_t group) {
    std::string& token = tokens[group];
    if (token.empty()) token = token_of_(job->record.uid(), group);
  };
  mint(job->record.state.group);
  for (const jobs::Plan& plan : job->record.state.plans) mint(plan.group);
  int64_t oldest = job->record.state.group;
  for (const auto& replica : job->replicas) {
    if (IsLive(replica->replica)) oldest = std::min(oldest, replica->launch_group);
  }
  while (tokens.size() > kKeptTokens && tokens.begin()->first < oldest) tokens.erase(tokens.begin());
}

void Orders::Offer(Transaction* transaction, const std::string& uid) {
  const JobEntry& job = *transaction->FindJob(uid);
  const jobs::Plan& plan = job.record.state.plans.back();
  for (const auto& replica : job.replicas) {
    const bool member = replica->replica.group() == job.record.state.group;
    if (!member || !IsLive(replica->replica) || replica->stop_requested) continue;
    TellPlan(transaction, job, replica->replica.replica_id());
  }
  if (plan.ready_after > absl::ZeroDuration()) {
    transaction->EffectsOf(uid)->rescale_phases.emplace_back("ready", plan.ready_after);
  }
}

void Orders::TellPlan(Transaction* transaction, const JobEntry& job, const std::string& replica_id) {
  transaction->EffectsOf(job.record.uid())
      ->commands.push_back({replica_id, v1::REPLICA_COMMAND_RESCALE, job.record.state.message,
                            DescribePlan(transaction->base(), job, replica_id)});
}

void Orders::Enter(Transaction* transaction, const std::string& uid, const jobs::Entered& entered) {
  JobEntry* job = transaction->EditJob(uid);
  SetState(entered.job, transaction->moment(), &job->record);
  GroupMembers replicas;
  for (size_t rank = 0; rank < entered.members.size(); ++rank) {
    int index = FindMember(job->replicas, entered.members[rank]);
    if (index < 0) {
      // It ended as a newcomer, and the replicas have tried to go on with it nevertheless.
      index = static_cast<int>(job->replicas.size());
      job->replicas.push_back(LostNewcomer(uid, entered, static_cast<int>(rank)));
    }
    v1::Replica* replica = &transaction->EditReplica(uid, index)->replica;
    replica->set_group(entered.job.group);
    replica->set_rank(static_cast<int32_t>(rank));
    replicas.push_back(job->replicas[index]);
  }
  for (const auto& other : job->replicas) {
    const std::string& id = other->replica.replica_id();
    if (!IsLive(other->replica) || FindMember(replicas, id) >= 0) continue;
    replicas.push_back(other);
    if (other->replica.group() < entered.job.group) transaction->EffectsOf(uid)->fenced.push_back(id);
  }
  job->replicas = std::move(replicas);
  for (const jobs::Event& event : entered.events) transaction->AddEvent(uid, event);
}

int Orders::ChoosePort(const Transaction& transaction, const std::string& node_id) {
  const NodeEntry* node = transaction.FindNode(node_id);
  if (node == nullptr || node->free_ports.empty()) return 0;
  std::set<int> used;
  for (const JobEntry* job : transaction.ActiveJobs()) {
    for (const auto& replica : job->replicas) {
      if (replica->master_port > 0 && IsLive(replica->replica) && replica->replica.node_id() == node_id) {
        used.insert(replica->master_port);
      }
    }
  }
  for (const int port : node->free_ports) {
    if (used.count(port) == 0) return port;
  }
  return 0;
}

v1::LaunchReplica Orders::LaunchCommand(const JobEntry& job, int index, const GroupSize& size) const {
  const ReplicaRecord& record = *job.replicas[index];
  const v1::Replica& replica = record.replica;
  v1::LaunchReplica launch;
  launch.set_namespace_(job.record.job->namespace_());
  launch.set_job(job.record.job->name());
  launch.set_job_uid(job.record.uid());
  launch.set_replica_id(replica.replica_id());
  launch.set_group(record.launch_group);
  launch.set_rank(record.launch_rank);
  launch.set_num_replicas(size.replicas);
  launch.set_num_nodes(size.nodes);
  launch.set_num_restarts(job.record.state.restarts);
  launch.set_token(job.record.tokens.at(record.launch_group));
  *launch.mutable_template_() = job.record.job->spec().template_();
  if (launch.template_().api_access()) {
    v1::EnvironmentVariable* variable = launch.mutable_template_()->add_env();
    variable->set_name("ADAPTDL_TOKEN");
    variable->set_value(ApiToken(launch.job_uid(), launch.group(), launch.token()));
  }
  if (job.record.job->spec().has_start_from())
    *launch.mutable_start_from() = job.record.job->spec().start_from();
  if (tracer_ != nullptr) launch.set_traceparent(tracer_->TraceparentOf(job));
  // Newcomers are told by those who train where to go.
  const bool member = record.launch_group == job.record.state.group;
  const AdaptdlHttp http = this->http();
  if (member && !http.url.empty()) {
    launch.mutable_adaptdl_http()->set_supervisor_url(
        http.known_by_host ? http.url
                           : absl::StrCat(http.url, "/", UrlSecret(launch.token()), "/", launch.rank()));
    launch.mutable_adaptdl_http()->set_master_port(job.replicas[0]->master_port);
  }
  return launch;
}

void Orders::Stop(Transaction* transaction, const std::string& uid, const jobs::StopOrder& stop) {
  const JobEntry* job = transaction->FindJob(uid);
  const int index = FindMember(job->replicas, stop.replica_id);
  if (index < 0) return;
  transaction->EditReplica(uid, index)->stop_requested = true;
  SendStop(transaction, *job, stop.node, stop.replica_id, stop.reason, stop.at_once);
}

void Orders::SendStop(Transaction* transaction, const JobEntry& job, const std::string& node_id,
                      const std::string& replica_id, const std::string& reason, bool at_once) {
  v1::StopReplica stop;
  stop.set_replica_id(replica_id);
  stop.set_reason(reason);
  *stop.mutable_grace_period() =
      at_once ? google::protobuf::Duration() : job.record.job->spec().template_().termination_grace_period();
  Effects* effects = transaction->EffectsOf(job.record.uid());
  effects->stops.emplace_back(node_id, std::move(stop));
  effects->commands.push_back({replica_id, v1::REPLICA_COMMAND_STOP, reason});
}

}  // namespace adaptdl::supervisor
