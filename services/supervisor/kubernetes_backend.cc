#include "services/supervisor/kubernetes_backend.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "libs/base/file.h"
#include "libs/base/random_id.h"
#include "libs/jobs/replica_id.h"
#include "libs/kubejobs/job_object.h"
#include "libs/service/log.h"
#include "services/supervisor/store/fenced_job_store.h"
#include "services/supervisor/store/sqlite_job_store.h"

namespace adaptdl::supervisor {
namespace {

// How often a standby looks whether it is to lead.
constexpr timespec kStandbyPeriod = {1, 0};
// A write of a job's status holds up all other changes: it is not waited for long, but tried again.
constexpr absl::Duration kWritePatience = absl::Seconds(2);
// Of our own pod, while it leads.
constexpr char kLeadsLabel[] = "adaptdl.petuum.com/leads";
// Of calls for logs, in the long run. A log is a call or two, and thousands of pods may end at once: what bounds those is how many are
// read at a time.
constexpr absl::Duration kLogCallPeriod = absl::Milliseconds(2);
constexpr absl::Duration kClaimPeriod = absl::Minutes(1);
constexpr absl::Duration kLogSweepPeriod = absl::Minutes(1);

void Report(const absl::Status& status) { log::Warning("the API server", {{"error", status.ToString()}}); }

std::string OwnName() {
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  return name;
}

}  // namespace

class KubernetesBackend::Sink final : public ReplicaSink {
 public:
  void Join(Core* core, NodeManager* nodes) {
    core_ = core;
    nodes_ = nodes;
  }
  absl::Status ObserveReplica(const std::string& node_id, const v1::ReplicaReport& report) override {
    return nodes_.load()->ObserveReplica(node_id, report);
  }
  absl::Status ReconcileNode(const v1::NodeHello& hello) override {
    v1::NodeHello whole = hello;
    core_.load()->Read([&](const Tables& tables) {
      const auto node = tables.nodes.find(hello.node_id());
      if (node != tables.nodes.end()) whole.set_session_id(node->second->record.session_id);
    });
    return nodes_.load()->ReconcileNode(whole);
  }

 private:
  // Set before anything is told.
  std::atomic<Core*> core_ = nullptr;
  std::atomic<NodeManager*> nodes_ = nullptr;
};

KubernetesBackend::KubernetesBackend(const KubernetesOptions& options, const Clock* clock,
                                     std::function<void(const std::string&)> end)
    : options_(options),
      clock_(*clock),
      end_(std::move(end)),
      identity_(absl::StrCat(OwnName(), "_", RandomHex(8))),
      sink_(std::make_unique<Sink>()) {}

KubernetesBackend::~KubernetesBackend() {
  End();
  if (election_ != nullptr) election_->Release();
}

absl::StatusOr<std::unique_ptr<kube::Session>> KubernetesBackend::MakeSession(const Calls& calls) const {
  absl::StatusOr<kube::Access> access = kube::FindAccess(options_.access);
  if (!access.ok()) return access.status();
  kube::SessionOptions session;
  // The server's audit log tells by it which of several has done what.
  session.user_agent = absl::StrCat("adaptdl-supervisor/", identity_);
  session.patience = calls.patience;
  session.timeout = calls.timeout;
  session.period = calls.period;
  session.may_change = calls.may_change;
  return kube::Session::Create(*std::move(access), std::move(session));
}

absl::Status KubernetesBackend::MakeClients() {
  const auto make = [&](const Calls& calls, std::unique_ptr<kube::Session>* session,
                        std::unique_ptr<kube::Client>* client) {
    absl::StatusOr<std::unique_ptr<kube::Session>> made = MakeSession(calls);
    if (!made.ok()) return made.status();
    *session = *std::move(made);
    *client = std::make_unique<kube::Client>(session->get());
    return absl::OkStatus();
  };
  // Who stood still for longer than the lease lasts finds out before it changes anything: orders of pods and events have no
  // other fence.
  const auto leads = [this] { return lease_->Valid(); };
  absl::Status status =
      make({.patience = RenewPeriod(), .timeout = RenewPeriod()}, &election_session_, &election_client_);
  status.Update(make({.patience = kWritePatience, .timeout = kWritePatience, .may_change = leads},
                     &store_session_, &store_client_));
  status.Update(make({.patience = absl::Seconds(60), .timeout = absl::Seconds(30), .may_change = leads},
                     &session_, &client_));
  status.Update(make({.patience = absl::Seconds(5), .timeout = absl::Seconds(5), .may_change = leads},
                     &events_session_, &events_client_));
  // Callers wait for what is asked there.
  status.Update(
      make({.patience = absl::Seconds(5), .timeout = absl::Seconds(3)}, &users_session_, &users_client_));
  // Tried again by who reads.
  status.Update(make({.patience = absl::Seconds(2), .timeout = absl::Seconds(5), .period = kLogCallPeriod},
                     &logs_session_, &logs_client_));
  return status;
}

absl::StatusOr<std::unique_ptr<KubernetesBackend>> KubernetesBackend::Connect(
    const KubernetesOptions& options, const Clock* clock, std::function<void(const std::string&)> end) {
  std::unique_ptr<KubernetesBackend> backend(new KubernetesBackend(options, clock, std::move(end)));
  const absl::StatusOr<std::string> key = ReadWholeFile(options.group_key_file);
  if (!key.ok())
    return absl::Status(key.status().code(), absl::StrCat("--group-key-file: ", key.status().message()));
  absl::StatusOr<GroupTokens> tokens = GroupTokens::Create(std::string(absl::StripAsciiWhitespace(*key)));
  if (!tokens.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--group-key-file: ", tokens.status().message()));
  }
  backend->tokens_ = *std::move(tokens);
  if (const absl::Status status = backend->MakeClients(); !status.ok()) return status;
  kube::LeaderElectionOptions election;
  election.lease = {options.own_namespace, options.lease_name};
  election.identity = backend->identity_;
  election.duration = options.lease_duration;
  election.renew_period = backend->RenewPeriod();
  election.lost = backend->end_;
  backend->election_ =
      std::make_unique<kube::LeaderElection>(backend->election_client_.get(), std::move(election));
  backend->lease_ = std::make_unique<KubeLease>(backend->election_.get(), backend->end_);
  // A container that is started again has the labels of the one before.
  if (const absl::Status status = backend->LabelOwnPod(*backend->users_client_, false); !status.ok())
    return status;
  return backend;
}

absl::Status KubernetesBackend::LabelOwnPod(const kube::Client& client, bool leads) const {
  if (options_.own_pod.empty()) return absl::OkStatus();
  const kube::Json label = leads ? kube::Json("true") : kube::Json();
  const absl::Status status =
      client
          .MergePatch(kube::ObjectOf(kube::Pods(), {options_.own_namespace, options_.own_pod}),
                      {{"metadata", {{"labels", {{kLeadsLabel, label}}}}}},
                      {.field_manager = "adaptdl-supervisor"})
          .status();
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat("--own-pod ", options_.own_pod, ": ", status.message()));
}

absl::StatusOr<bool> KubernetesBackend::AwaitLeadership() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  std::string leader;
  while (true) {
    const absl::StatusOr<bool> acquired = election_->TryAcquire();
    if (acquired.ok() && *acquired) break;
    if (!acquired.ok()) Report(acquired.status());
    if (const std::string holder = election_->seen_holder(); acquired.ok() && holder != leader) {
      leader = holder;
      log::Info("standing by: another supervisor leads", {{"leader", leader}});
    }
    // They are blocked in all threads, so none is missed.
    if (sigtimedwait(&signals, nullptr, &kStandbyPeriod) > 0) return false;
  }
  election_->StartRenewal();
  return true;
}

absl::StatusOr<std::unique_ptr<JobStore>> KubernetesBackend::OpenStore() {
  SqliteJobStoreOptions history;
  history.folder = options_.history_folder;
  history.file = "history.db";
  absl::StatusOr<std::unique_ptr<SqliteJobStore>> opened = SqliteJobStore::Open(history);
  if (!opened.ok()) return opened.status();
  history_ = *std::move(opened);
  if (options_.keep_log_bytes > 0) {
    absl::StatusOr<std::unique_ptr<KeptLogs>> kept =
        KeptLogs::Create(absl::StrCat(options_.history_folder, "/logs"));
    if (!kept.ok()) return kept.status();
    kept_logs_ = *std::move(kept);
  }
  events_ = std::make_unique<KubeEvents>(events_client_.get(), OwnName());
  auto store = std::make_unique<KubeJobStore>(KubeJobStoreParts{
      .client = store_client_.get(),
      .lease = lease_.get(),
      .tokens = &*tokens_,
      .clock = &clock_,
      .history = history_.get(),
      .events = events_.get(),
      .job_from_object = [defaults = options_.pods.default_resources](
                             const kube::Json& object) { return kubejobs::JobFromObject(object, defaults); },
      .name_space = options_.name_space});
  store_ = store.get();
  return std::make_unique<FencedJobStore>(std::move(store), lease_.get());
}

absl::StatusOr<kube::Json> KubernetesBackend::MakePod(const std::string& node_id,
                                                      const v1::LaunchReplica& launch,
                                                      const std::string& claim) const {
  const std::shared_ptr<const kube::Json> job = store_->RawObject(launch.job_uid());
  if (job == nullptr) return absl::UnavailableError(absl::StrCat("job \"", launch.job(), "\" has no object"));
  kube::Json node = {{"metadata", {{"name", node_id}}}};
  core_->Read([&](const Tables& tables) {
    const auto known = tables.nodes.find(node_id);
    if (known == tables.nodes.end()) return;
    for (const auto& [name, value] : known->second->record.node.labels())
      node["metadata"]["labels"][name] = value;
  });
  kubejobs::PodOptions pods = options_.pods;
  pods.claim = claim;
  return kubejobs::MakePod(*job, launch, node, pods);
}

bool KubernetesBackend::IsForeign(const Pod& pod) const {
  if (!jobs::MayBeReplicaOf(pod.key.name, pod.job_uid)) return true;
  const std::shared_ptr<const JobEntry> job =
      core_ == nullptr ? nullptr : core_->index().FindJob(pod.job_uid);
  return job != nullptr && job->record.job->namespace_() != pod.key.name_space;
}

bool KubernetesBackend::IsKnown(const Pod& pod) const {
  const std::shared_ptr<const JobEntry> job =
      core_ == nullptr ? nullptr : core_->index().FindJob(pod.job_uid);
  return job != nullptr && job->record.job->namespace_() == pod.key.name_space;
}

std::unique_ptr<LogKeeper> KubernetesBackend::MakeLogKeeper() {
  if (kept_logs_ == nullptr) return nullptr;
  LogKeeperParts parts;
  parts.client = logs_client_.get();
  parts.clock = &clock_;
  parts.kept = kept_logs_.get();
  parts.is_known = [this](const Pod& pod) { return IsKnown(pod); };
  parts.settled = [this](const std::string& replica_id) { launcher_->Reconsider(replica_id); };
  parts.report = [](const std::string& what, const absl::Status& status) {
    log::Warning(what, {{"error", status.ToString()}});
  };
  LogKeeperOptions options;
  options.keep_bytes = static_cast<size_t>(options_.keep_log_bytes);
  return std::make_unique<LogKeeper>(parts, options);
}

SupervisorSeams KubernetesBackend::seams() {
  log_keeper_ = MakeLogKeeper();
  PodWatchOptions watch;
  watch.name_space = options_.name_space;
  watch.node_pods = options_.node_pods;
  watch.is_foreign = [this](const Pod& pod) { return IsForeign(pod); };
  watch.reflector.report = Report;
  const auto report = [](const std::string& what, const absl::Status& status) {
    log::Warning(what, {{"error", status.ToString()}});
  };
  watch.report = report;
  watch.changed = [this](const PodValue& before, const PodValue& after) {
    if (log_keeper_ != nullptr) log_keeper_->Observe(before, after);
  };
  pod_watch_ = std::make_unique<PodWatch>(client_.get(), &clock_, sink_.get(), watch);
  log_readers_ = std::make_unique<PodLogReaders>(logs_client_.get(), pod_watch_.get(), kept_logs_.get());
  CheckpointClaimOptions claims = options_.claims;
  claims.name_space = options_.name_space;
  claims.tell = [this](const std::string& uid, const std::string& why) { TellOfStorage(uid, why); };
  // Looked at in steps, which are not to wait for long.
  claims_ = std::make_unique<CheckpointClaims>(store_client_.get(), &clock_, std::move(claims));
  PodLauncherParts parts;
  parts.client = client_.get();
  parts.clock = &clock_;
  parts.watch = pod_watch_.get();
  parts.sink = sink_.get();
  parts.claims = claims_.get();
  parts.output = log_keeper_.get();
  parts.make_pod = [this](const std::string& node, const v1::LaunchReplica& launch,
                          const std::string& claim) { return MakePod(node, launch, claim); };
  launcher_ =
      std::make_unique<PodLauncher>(parts, PodLauncherOptions{.keep = options_.keep_pods, .report = report});
  SupervisorSeams seams;
  seams.launcher = launcher_.get();
  seams.logs = log_readers_.get();
  seams.files = absl::UnimplementedError(
      "replicas are pods here, and the supervisor does not see their volumes: read files of a pod by "
      "\"kubectl cp\", or "
      "mount the job's claim in a pod of yours");
  seams.token_of = [this](const std::string& uid, int64_t group) { return tokens_->Token(uid, group); };
  seams.step = [this] { Step(); };
  return seams;
}

security::Authorities KubernetesBackend::authorities() {
  ClusterUsersOptions users;
  users.audience = options_.user_audience;
  return {.tokens = std::make_shared<ClusterTokens>(users_client_.get(), &clock_, users),
          .access = std::make_shared<ClusterAccess>(users_client_.get(), &clock_, users)};
}

absl::Status KubernetesBackend::Begin(Supervisor* supervisor) {
  absl::Status status = lease_->RaiseAbove(store_->LargestTerm());
  if (status.ok()) status = LabelOwnPod(*client_, true);
  if (!status.ok()) return status;
  Cluster* cluster = supervisor->cluster();
  core_ = cluster->core();
  sink_->Join(core_, cluster->nodes());
  proof_ = std::make_unique<PodProof>(client_.get(), &clock_);
  cluster->membership()->SetProof(proof_.get());
  hosts_ = std::make_unique<PodHosts>(pod_watch_.get());
  cluster->membership()->SetHosts(hosts_.get());
  const auto seen = [this](const kube::Json& object) { store_->Seen(object); };
  registrar_ = std::make_unique<ObjectRegistrar>(client_.get(), seen, options_.pods.default_resources);
  cluster->jobs()->SetRegistrar(registrar_.get(), jobspec::ReplicaKind::kPod);
  nodes_ = std::make_unique<ObservedNodes>(core_, cluster->nodes());
  NodeWatchOptions nodes;
  nodes.grace = options_.node_grace;
  nodes.report = Report;
  nodes.told = [this](const std::string& id, bool is_there) {
    is_there ? pod_watch_->Reconcile(id) : pod_watch_->Forget(id);
  };
  node_watch_ = std::make_unique<NodeWatch>(client_.get(), nodes_.get(), &clock_, std::move(nodes));
  pod_watch_->Start();
  if (!node_watch_->AwaitSynced({}) || !pod_watch_->AwaitSynced({})) {
    return absl::CancelledError("the cluster was not seen whole");
  }
  job_watch_ = std::make_unique<JobWatch>(
      client_.get(), core_, cluster->jobs(), seen,
      JobWatchOptions{options_.name_space, options_.pods.default_resources, Report});
  job_watch_->AwaitSynced({});
  quota_watch_ = MakeQuotaWatch();
  quota_watch_->AwaitSynced({});
  log::Info("following the cluster",
            {{"namespace", options_.name_space.empty() ? "all" : options_.name_space}});
  return absl::OkStatus();
}

std::unique_ptr<QuotaWatch> KubernetesBackend::MakeQuotaWatch() {
  QuotaWatchParts parts;
  parts.client = client_.get();
  parts.core = core_;
  parts.seen = [this](const std::string& name_space, const std::optional<v1::NamespaceQuota>& quota) {
    store_->SeenQuota(name_space, quota);
  };
  parts.refuse = [this](const kube::Json& object, const std::string& why) {
    log::Warning("an AdaptDLQuota makes no sense; the former quota stays",
                 {{"quota", kube::KeyOf(object).ToString()}, {"error", why}});
    events_->Warn(object, "QuotaInvalid", absl::StrCat(why, "; the former quota, if any, stays in force"),
                  clock_.Now());
  };
  return std::make_unique<QuotaWatch>(std::move(parts), QuotaWatchOptions{options_.name_space, Report});
}

void KubernetesBackend::TellOfStorage(const std::string& job_uid, const std::string& why) {
  if (core_ == nullptr) return;
  core_
      ->Update([&](Transaction* transaction) {
        if (transaction->FindJob(job_uid) == nullptr) return absl::OkStatus();
        store_->SeenStorage(job_uid, why);
        transaction->EditJob(job_uid);  // so that its status is looked at
        if (why.empty()) return absl::OkStatus();
        transaction->AddRepeatedEvent(
            job_uid, {true, "NoCheckpointStorage", absl::StrCat("checkpoints have no place: ", why), "", ""},
            {});
        return absl::OkStatus();
      })
      .IgnoreError();
}

void KubernetesBackend::Step() {
  MutexLock lock(&stepping_);
  if (job_watch_ == nullptr) return;
  node_watch_->Step();
  job_watch_->Step();
  quota_watch_->Step();
  const absl::Time now = clock_.Both().steady;
  if (log_keeper_ != nullptr && now >= next_log_sweep_) {
    next_log_sweep_ = now + kLogSweepPeriod;
    log_keeper_->Sweep(
        [core = core_](const std::string& uid) { return core->index().FindJob(uid) != nullptr; });
  }
  if (options_.claims.storage_class.empty() || now < next_claims_) return;
  next_claims_ = now + kClaimPeriod;
  if (const absl::Status status = claims_->Check({}); !status.ok()) Report(status);
}

void KubernetesBackend::End() {
  {
    MutexLock lock(&stepping_);
    quota_watch_ = nullptr;
    job_watch_ = nullptr;
    node_watch_ = nullptr;
  }
  // What is heard becomes orders, and those need what was heard.
  if (pod_watch_ != nullptr) pod_watch_->Stop();
  if (log_keeper_ != nullptr) log_keeper_->Stop();
  launcher_ = nullptr;
}

}  // namespace adaptdl::supervisor
