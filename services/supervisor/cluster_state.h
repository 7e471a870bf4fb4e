// The truth of the cluster, and its single writer: jobs, nodes, allocations and replicas, in memory and in
// the store.
//
// Every change goes the same way: a Transaction is prepared, the state machine of libs/jobs says what follows
// from it, the store takes all of it at once, and only then it is visible; watchers are told and commands go
// out when it is durable (group_commit.h). If the store refuses, nothing has happened. Observations that are
// repeated change nothing, and what replicas and nodes report is bounded (cluster_reports.cc).
//
// Step() does what depends on the time: leases, retries, the flush of progress and hints. A thread calls it
// in production (supervisor.h), tests call it themselves.
//
// Calls that change something take the `caller` that has proved who it is (Admission::IdentityOf): an answer
// is repeated to none other.
//
// Reads go to an index of what was committed last (read_index.h), without the state's lock.
//
// Thread-safe: one mutex guards everything else. Requests are the messages of the services, and all errors
// are those that their clients see.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_CLUSTER_STATE_H_
#define ADAPTDL_SERVICES_SUPERVISOR_CLUSTER_STATE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "adaptdl/v1/job_service.pb.h"
#include "adaptdl/v1/node_service.pb.h"
#include "adaptdl/v1/quota_service.pb.h"
#include "adaptdl/v1/replica_service.pb.h"
#include "adaptdl/v1/scheduling_service.pb.h"
#include "libs/base/clock.h"
#include "libs/base/mutex.h"
#include "libs/base/token_buckets.h"
#include "libs/jobs/node_health.h"
#include "libs/jobs/state_machine.h"
#include "libs/messages/text.h"
#include "services/supervisor/allocation_pages.h"
#include "services/supervisor/amounts.h"
#include "services/supervisor/change_hub.h"
#include "services/supervisor/cluster_view.h"
#include "services/supervisor/executor.h"
#include "services/supervisor/group_commit.h"
#include "services/supervisor/lease/leader_lease.h"
#include "services/supervisor/metrics.h"
#include "services/supervisor/pace.h"
#include "services/supervisor/read_index.h"
#include "services/supervisor/replica_launcher.h"
#include "services/supervisor/replica_sessions.h"
#include "services/supervisor/request_key.h"
#include "services/supervisor/store/job_store.h"
#include "services/supervisor/submission_window.h"
#include "services/supervisor/tables.h"
#include "services/supervisor/transaction.h"

namespace adaptdl::supervisor {

struct ClusterOptions {
  // Nodes are lost after three of these without a sign of life.
  absl::Duration heartbeat_period = absl::Seconds(2);
  // Replicas are silent after three of these.
  absl::Duration replica_heartbeat_period = absl::Seconds(2);
  // `silence` follows from the heartbeats' period.
  jobs::Policy policy;
  // How long an allocator's lease lasts without renewal.
  absl::Duration allocator_lease = absl::Seconds(3);
  // How often progress and hints are stored; a crash loses at most this much of them.
  absl::Duration flush_period = absl::Milliseconds(500);
  // How long the answers of calls are kept for their repetition.
  absl::Duration request_lifetime = absl::Hours(24);
  // How long finished jobs are kept, and events of the others.
  absl::Duration retention = absl::Hours(24) * 30;
  // Whether their logs and folders are deleted with them then.
  bool expire_files = false;
  // Replicas of a job that have ended are remembered, so that their logs are found: at least the newest so
  // many. A worker keeps the logs of as many.
  int kept_replicas = 1000;
  // Bounds of namespaces without quotas of their own: most jobs that have not finished, and most submissions
  // in any minute. 0: none.
  int max_jobs_per_namespace = 10'000;
  int max_submissions_per_minute = 0;
  // When nodes are quarantined.
  jobs::QuarantinePolicy quarantine;
};

// None is owned; all outlive the state.
struct ClusterParts {
  JobStore* store = nullptr;
  ReplicaLauncher* launcher = nullptr;
  ReplicaSessions* sessions = nullptr;
  ChangeHub* hub = nullptr;
  GroupCommit* durability = nullptr;
  Executor* executor = nullptr;
  // For reads, which so wait for no change.
  Executor* readers = nullptr;
  const Clock* clock = nullptr;
  // Lower-case hexadecimal digits of so many random bytes.
  std::function<std::string(int)> random_hex;
  // Of this supervisor. Null: there is no other one.
  const LeaderLease* lease = nullptr;
};

// A replica that has shown who it is.
struct ReplicaContext {
  std::string job_uid;
  std::string replica_id;
  // As the replica said; the job's current one may be newer.
  int64_t group = 0;
};

// Who speaks, from the path of the URL that a program of AdaptDL's Python package was given.
struct UrlIdentity {
  std::string secret;
  int rank = 0;
  std::string name_space;
  std::string job;
};

// What a replica is to know when it opens a heartbeat stream.
struct Orders {
  bool stop = false;
  // Whether it is rank 0 of the current group: its progress is the job's.
  bool leads = false;
  // The newest group that it is to change over to, if there is one.
  std::optional<v1::GroupPlan> plan;
  std::string reason;
};

// Where output of a replica is to be found.
struct LogLocation {
  v1::Replica replica;
  // Group that it was launched for; replica.group() is the last one that it belonged to.
  int64_t first_group = 0;
  // Empty: its node is gone.
  std::string worker_address;
};

// What a replica is told of its group at its start.
struct GroupSize {
  int replicas = 0;
  // Distinct ones.
  int nodes = 0;
};

class ClusterState {
 public:
  // Reads the store. All nodes get a fresh lease: their workers need not have noticed that we were away.
  static absl::StatusOr<std::unique_ptr<ClusterState>> Create(const ClusterOptions& options,
                                                              const ClusterParts& parts);

  const ClusterOptions& options() const { return options_; }
  // Where calls of this class are made that come in over the network, and where their answers wait.
  Executor* executor() const { return parts_.executor; }
  // The same for calls that only read.
  Executor* readers() const { return parts_.readers; }
  GroupCommit* durability() const { return parts_.durability; }
  // From now on counts there. `metrics` outlives the state.
  void SetMetrics(Metrics* metrics);
  Metrics* metrics() const { return metrics_; }

  Moment Now() const { return parts_.clock->Both(); }
  // Of the leadership of now (v1::RegisterNodeResponse). 0: there is none.
  int64_t term() const { return parts_.lease == nullptr ? 0 : parts_.lease->term(); }
  // What a call that ended with `status` is told. While another supervisor may lead this one knows nothing
  // for sure: any failure is UNAVAILABLE then, and the caller asks again, or asks the other one.
  absl::Status Verdict(const absl::Status& status) const;
  // Does what is due by the clock.
  void Step();

  // --- JobService
  // -------------------------------------------------------------------------------------------
  absl::StatusOr<v1::SubmitJobResponse> SubmitJob(v1::SubmitJobRequest request, const std::string& caller);
  absl::StatusOr<v1::Job> GetJob(const std::string& name_space, const std::string& name) const;
  // NOT_FOUND if there is none any more.
  absl::StatusOr<v1::Job> GetJobByUid(const std::string& uid) const;
  absl::StatusOr<v1::ListJobsResponse> ListJobs(const v1::ListJobsRequest& request) const;
  // uids in order of submission; namespace "*" means all.
  std::vector<std::string> JobUids(const std::string& name_space) const;
  absl::StatusOr<v1::CancelJobResponse> CancelJob(const v1::CancelJobRequest& request,
                                                  const std::string& caller);
  absl::StatusOr<v1::DeleteJobResponse> DeleteJob(const v1::DeleteJobRequest& request,
                                                  const std::string& caller);
  absl::StatusOr<v1::ListEventsResponse> ListEvents(const v1::ListEventsRequest& request) const;
  // Of all groups, in order of group and rank.
  absl::StatusOr<std::vector<LogLocation>> FindLogs(const std::string& uid) const;
  // Workers that may serve the job's files, the likeliest first.
  std::vector<std::string> FindFileServers(const std::string& uid) const;

  // --- NodeService
  // ------------------------------------------------------------------------------------------
  absl::StatusOr<v1::RegisterNodeResponse> RegisterNode(const v1::RegisterNodeRequest& request,
                                                        const std::string& caller);
  // The lease of the node's current session. ABORTED: there is no such session.
  absl::StatusOr<std::shared_ptr<Lease>> FindSession(const std::string& node_id, int64_t session_id) const;
  // The node says what runs there: what differs is stopped, started again or lost.
  absl::Status ReconcileNode(const v1::NodeHello& hello);
  absl::Status ObserveReplica(const std::string& node_id, const v1::ReplicaReport& report);
  absl::Status NoticePreemption(const std::string& node_id, const v1::PreemptionNotice& notice);
  absl::StatusOr<v1::ListNodesResponse> ListNodes(const v1::ListNodesRequest& request) const;
  absl::StatusOr<v1::DrainNodeResponse> DrainNode(const v1::DrainNodeRequest& request,
                                                  const std::string& caller);
  absl::StatusOr<v1::RemoveNodeResponse> RemoveNode(const v1::RemoveNodeRequest& request,
                                                    const std::string& caller);
  // Nothing of the deleted job is left on the node.
  absl::Status FinishDeletion(const std::string& node_id, const std::string& job_uid);
  absl::Status OfferPorts(const std::string& node_id, const v1::FreePorts& free);

  // --- ReplicaService
  // ---------------------------------------------------------------------------------------
  absl::StatusOr<ReplicaContext> Authorize(const v1::ReplicaIdentity& identity,
                                           const std::string& token) const;
  absl::Status JoinGroup(const ReplicaContext& replica, const std::string& address, bool rescales_in_place);
  // Who is missing, or the formed group. ABORTED: the group is over.
  absl::StatusOr<v1::JoinGroupResponse> DescribeRendezvous(const ReplicaContext& replica,
                                                           bool omit_members) const;
  // The replica sends heartbeats for its group, which, if it was a plan and the replica `trains`, is the
  // current one from now on.
  absl::StatusOr<Orders> AttachReplica(const ReplicaContext& replica, bool trains);
  // The collectives of `group` do not work any more, as the replica says.
  absl::Status ObserveBroken(const ReplicaContext& replica, int64_t group, const std::string& reason);
  // What a change of the replica set has cost.
  absl::Status ObserveRescale(const ReplicaContext& replica, const v1::RescaleTimes& times);
  absl::Status ObserveCheckpoint(const ReplicaContext& replica, const v1::CheckpointResult& result);
  // The replica's group has taken its first step, or a later one: a re-scale ends with the first.
  absl::Status ObserveTraining(const ReplicaContext& replica);
  absl::Status ReportHints(const ReplicaContext& replica, const v1::Hints& hints);
  // A replica's report ("hints", "progress") was refused for what it says: counts it, and tells the job's
  // user once.
  void NoteRefusedReport(const ReplicaContext& replica, const std::string& kind, const absl::Status& why);

  // --- AdaptDL's Python package, over HTTP (http/adaptdl_api.h)
  // ----------------------------------------------------------------------------------------
  // From now on launches tell replicas this URL ("http://host:port"; the host may be empty, see
  // v1::AdaptdlHttp), with the replica's own path behind it.
  void ServeAdaptdl(const std::string& url);
  // NOT_FOUND: nobody's URL, or that of a group that is over.
  absl::StatusOr<ReplicaContext> AuthorizeUrl(const UrlIdentity& identity) const;
  // The replica has come to the rendezvous of the group that was launched after so many restarts.
  absl::Status JoinByUrl(const ReplicaContext& replica, int64_t restarts);
  // Hosts of the group's members, by rank; none while some have not come. NOT_FOUND: the group is over.
  absl::StatusOr<std::vector<std::string>> FindHosts(const std::string& job_uid, int64_t group) const;

  // --- SchedulingService
  // ------------------------------------------------------------------------------------
  // The cluster as it is.
  ClusterView View() const;
  // What the news are about, as it is now, which may be newer than they are; the version is theirs.
  ClusterView ViewOfChange(const ClusterNews& news) const;
  // Also takes pages of a decision, which is applied when the last one has come.
  absl::StatusOr<v1::ApplyAllocationsResponse> ApplyAllocations(const v1::ApplyAllocationsRequest& request,
                                                                const std::string& caller);
  absl::StatusOr<v1::AcquireLeaseResponse> AcquireLease(const v1::AcquireLeaseRequest& request);

  // --- QuotaService
  // -----------------------------------------------------------------------------------------
  absl::StatusOr<v1::SetQuotaResponse> SetQuota(const v1::SetQuotaRequest& request,
                                                const std::string& caller);
  absl::StatusOr<v1::ListQuotasResponse> ListQuotas(const v1::ListQuotasRequest& request) const;
  absl::StatusOr<v1::RemoveQuotaResponse> RemoveQuota(const v1::RemoveQuotaRequest& request,
                                                      const std::string& caller);

 private:
  // A job's current group as all its members are told of it at their rendezvous: what differs between them is
  // left out. Made once for each change of the job, since a thousand may ask.
  struct GroupView {
    std::shared_ptr<const JobEntry> job;
    v1::JoinGroupResponse members;
    // The same without GroupFormed.members.
    v1::JoinGroupResponse brief;
    // Indices in JobEntry::replicas.
    std::unordered_map<std::string, int> places;
  };

  ClusterState(const ClusterOptions& options, const ClusterParts& parts);
  void Fill(const StoreContents& contents) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status TellOfDamage(const StoreContents& contents) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Runs `change` in a transaction, once per request, and stores it together with its answer.
  template <typename Response>
  absl::StatusOr<Response> Once(const RequestKey& key,
                                const std::function<absl::StatusOr<Response>(Transaction*)>& change)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // What the request was answered before, if it was. INVALID_ARGUMENT: its id was used for another one.
  absl::StatusOr<std::optional<RequestRecord>> FindAnswer(const RequestKey& key, absl::Time now) const;
  absl::Status Commit(Transaction* transaction) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Shows readers what was committed.
  void Publish(const Changes& changes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PublishAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CarryOut(const Effects& effects) const;

  Invariants* invariants() const { return parts_.executor->invariants(); }

  // Asks the state machine until nothing more follows. If that throws, the job is left alone for a while, and
  // the exception goes on to the guard of whoever asked: nothing of the transaction is stored.
  void Settle(Transaction* transaction, const std::string& uid) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether something changed.
  bool AdvanceOnce(Transaction* transaction, const std::string& uid) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  jobs::Desired DesiredOf(const Transaction& transaction, const JobEntry& job) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // How many more replicas of the job each node that it is to be on has room for.
  std::map<std::string, int> FreeSlots(const Transaction& transaction, const JobEntry& job) const;
  std::string FindObstacle(const Transaction& transaction, const JobEntry& job) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Launch(Transaction* transaction, const std::string& uid, const jobs::LaunchGroup& launch) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LaunchNewcomer(Transaction* transaction, const std::string& uid,
                      const jobs::LaunchNewcomer& launch) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MintTokens(JobEntry* job) const;
  // Tells all members of the current group, and newcomers of what they wait for, the newest plan.
  void Offer(Transaction* transaction, const std::string& uid) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether the replica may speak as a member of `group`.
  bool MaySpeak(const JobEntry& job, const ReplicaRecord& replica, int64_t group) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The group that `members` form, as the replica is to see it.
  void FillFormed(const JobEntry& job, const std::vector<std::shared_ptr<const ReplicaRecord>>& members,
                  int64_t group, const std::string& replica_id, v1::GroupFormed* formed) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  const GroupView& ViewOf(const std::shared_ptr<const JobEntry>& job) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The newest plan, or else the current group, as the replica is to see it.
  v1::GroupPlan DescribePlan(const JobEntry& job, const std::string& replica_id) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enter(Transaction* transaction, const std::string& uid, const jobs::Entered& entered) const;
  void Stop(Transaction* transaction, const std::string& uid, const jobs::StopOrder& stop) const;
  v1::LaunchReplica LaunchCommand(const JobEntry& job, int index) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  v1::LaunchReplica LaunchCommand(const JobEntry& job, int index, const GroupSize& size) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A port of the node that no living replica was given; 0: there is none.
  int ChoosePort(const Transaction& transaction, const std::string& node_id) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetFreePorts(const std::string& node_id, const google::protobuf::RepeatedField<int32_t>& ports)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void SendStop(Transaction* transaction, const JobEntry& job, const std::string& node_id,
                       const std::string& replica_id, const std::string& reason, bool at_once = false);

  void ExpireLeases() ABSL_LOCKS_EXCLUDED(mutex_);
  void EndQuarantines() ABSL_LOCKS_EXCLUDED(mutex_);
  // Takes the end of a replica for a sign of its node's health.
  void JudgeNode(Transaction* transaction, const std::string& uid, const ReplicaRecord& replica)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether some other node is ready.
  bool OthersReady(const Transaction& transaction, const std::string& id) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LoseNode(Transaction* transaction, const std::string& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RetryDue() ABSL_LOCKS_EXCLUDED(mutex_);
  void Flush() ABSL_LOCKS_EXCLUDED(mutex_);
  void StoreProgress(Transaction* transaction, const std::string& uid, const v1::TrainingProgress& progress)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // An event that replicas or nodes can bring about again and again: told with the change, or later if there
  // are too many.
  void Report(Transaction* transaction, const std::string& uid, const jobs::Event& event)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void HoldBack(const std::string& uid, const jobs::Event& event, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Tells what was held back, as far as it is time for it.
  void TellHeldReports() ABSL_LOCKS_EXCLUDED(mutex_);
  void PruneRequests() ABSL_LOCKS_EXCLUDED(mutex_);
  // False: there is more to do.
  bool PruneReplicas() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Expire() ABSL_LOCKS_EXCLUDED(mutex_);
  void UpdateGauges() ABSL_LOCKS_EXCLUDED(mutex_);

  absl::StatusOr<std::string> ChooseName(const Transaction& transaction,
                                         const v1::SubmitJobRequest& request) const;
  absl::StatusOr<v1::SubmitJobResponse> AddJob(Transaction* transaction, const v1::SubmitJobRequest& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // RESOURCE_EXHAUSTED: the namespace may not have another job, or not yet.
  absl::Status CheckJobQuota(const std::string& name_space) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckSubmissionQuota(const std::string& name_space) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DeleteFiles(Transaction* transaction, const v1::Job& job) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Tells the node which files are to go.
  void TellDeletions(Transaction* transaction, const std::string& node_id) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TellDeletionsAgain() ABSL_LOCKS_EXCLUDED(mutex_);
  // The node, and all that is kept of it.
  void ForgetNode(Transaction* transaction, const std::string& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Takes over what a node says of one of its replicas; stops it there if it should not be.
  void Observe(Transaction* transaction, const std::string& node_id, const v1::ReplicaReport& report)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void LoseReplica(Transaction* transaction, const std::string& uid, int index, jobs::LossCause cause,
                          const std::string& message);
  v1::Node DescribeNode(const NodeEntry& node) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // No job is to have replicas on both nodes for a while. Soft: a later supervisor finds out again.
  void KeepApart(Transaction* transaction, std::pair<std::string, std::string> nodes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The allocator is to hear of it, and jobs that wait for other nodes.
  static void TellOfPair(const std::pair<std::string, std::string>& nodes, bool apart,
                         Transaction* transaction);
  // Has pairs of nodes tried again.
  void ForgetApart();

  // Whether whoever got this number may decide.
  absl::Status CheckAllocatorLease(int64_t lease_term, absl::Time now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<v1::ApplyAllocationsResponse> ApplyDecision(const v1::ApplyAllocationsRequest& request,
                                                             const std::string& caller);
  absl::Status CheckAllocation(const Transaction& transaction, const v1::JobAllocation& allocation) const;
  void Allocate(Transaction* transaction, const v1::JobAllocation& allocation) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckCapacity(const Transaction& transaction) const;

  // Distinct types of the GPUs that these replicas of the job compute on.
  std::set<std::string> GpuTypesOf(const JobEntry& job,
                                   const std::vector<std::shared_ptr<const ReplicaRecord>>& members) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // NOT_FOUND, or DATA_LOSS: the job is there, and can't be read.
  absl::Status NoReadableJob(const std::string& name_space, const std::string& name) const;
  const ClusterOptions options_;
  const ClusterParts parts_;
  std::atomic<Metrics*> metrics_ = nullptr;
  // Namespaces and names of jobs that can't be read: they are taken, still. Filled at the start.
  std::set<std::pair<std::string, std::string>> unreadable_jobs_;

  ReadIndex index_;
  mutable Mutex mutex_;
  Tables tables_ ABSL_GUARDED_BY(mutex_);
  // By job, of those whose members ask.
  mutable std::map<std::string, GroupView> views_ ABSL_GUARDED_BY(mutex_);
  int64_t last_session_ ABSL_GUARDED_BY(mutex_) = 0;
  // Which allocator decides. Soft: a supervisor that was restarted gives it to whoever asks first.
  struct AllocatorLease {
    std::string holder;
    int64_t term = 0;
    absl::Time until = absl::InfinitePast();
  };
  AllocatorLease allocator_lease_ ABSL_GUARDED_BY(mutex_);
  AllocationPages allocation_pages_;
  // Not stored yet.
  std::map<std::string, v1::Hints> new_hints_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Pace> paces_ ABSL_GUARDED_BY(mutex_);
  // Groups that replicas have reported as broken, by job and replica, and the newest groups that replicas
  // have spoken for, by replica. Soft: whoever is concerned says so again after a restart.
  struct BrokenReport {
    int64_t group = 0;
    absl::Time since;
  };
  std::map<std::string, std::map<std::string, BrokenReport>> broken_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int64_t> entered_ ABSL_GUARDED_BY(mutex_);
  // Empty: AdaptDL's Python package is not served.
  std::string http_url_ ABSL_GUARDED_BY(mutex_);
  // What workers said last (v1::FreePorts), by node. They say it again whenever they connect.
  std::map<std::string, std::vector<int>> free_ports_ ABSL_GUARDED_BY(mutex_);
  // Jobs of which the state machine has thrown, and until when they are left alone.
  mutable std::map<std::string, absl::Time> set_aside_ ABSL_GUARDED_BY(mutex_);
  // Jobs of which replicas have lately said that they wait for others.
  std::set<std::string> waiting_ ABSL_GUARDED_BY(mutex_);
  // Soft: after a restart it is filled from the jobs that are still there.
  SubmissionWindow submissions_ ABSL_GUARDED_BY(mutex_);
  // Pairs of nodes (the lesser id first) whose replicas did not reach each other: until when they are kept
  // apart, and for how long that was. Known for a while after that: should it happen again, the next time is
  // longer.
  struct Apart {
    absl::Time until;
    absl::Duration length;
    bool over = false;
  };
  mutable std::map<std::pair<std::string, std::string>, Apart> apart_ ABSL_GUARDED_BY(mutex_);
  // What replicas' ends tell of nodes. Soft as well; that a node is quarantined is stored.
  std::map<std::string, jobs::NodeHealth> health_ ABSL_GUARDED_BY(mutex_);
  // Jobs whose users were told of reports that made no sense.
  std::set<std::string> told_of_reports_ ABSL_GUARDED_BY(mutex_);
  // Of the store, until they are counted.
  std::vector<DamagedRow> damaged_rows_ ABSL_GUARDED_BY(mutex_);
  // How many reports are stored and told, by job (uid), replica or node (id): so many at once, and one per
  // period.
  static constexpr int kReportBurst = 20;
  static constexpr absl::Duration kReportPeriod = absl::Seconds(5);
  TokenBuckets reports_ ABSL_GUARDED_BY(mutex_) = {kReportBurst, kReportPeriod};
  // Registrations, by node.
  static constexpr int kRegistrationBurst = 60;
  TokenBuckets registrations_ ABSL_GUARDED_BY(mutex_) = {kRegistrationBurst, kReportPeriod};
  // What came beyond that, by job: soft, as it is little worth.
  struct HeldReports {
    // The latest of each kind, and how many there were.
    std::map<EventKey, std::pair<jobs::Event, Repetition>> events;
    // Of the job's status.
    std::optional<std::string> checkpoint_error;
  };
  std::map<std::string, HeldReports> held_reports_ ABSL_GUARDED_BY(mutex_);
  // Whether ports were offered that jobs may wait for.
  bool ports_offered_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time next_flush_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  absl::Time last_step_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  absl::Time next_gauges_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  absl::Time next_prune_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  absl::Time next_deletions_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  // The group that each job had when its replicas were pruned.
  std::map<std::string, int64_t> pruned_groups_ ABSL_GUARDED_BY(mutex_);
  absl::Time next_expiry_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

// "Namespace 'a', job 'b' ..."-style NOT_FOUND.
absl::Status NoSuchJob(const std::string& name_space, const std::string& name);

// The namespace, or "default".
std::string NamespaceOr(const std::string& name_space);

// Number from a page token; INVALID_ARGUMENT if it is none of ours.
absl::StatusOr<int64_t> ParsePageToken(const std::string& token);
// Bytes of a page, well below the largest message: a page ends with the entry that goes beyond.
inline constexpr size_t kMaxPageBytes = 2 << 20;
// Page size within its limits. INVALID_ARGUMENT: it is negative.
absl::StatusOr<int> ParsePageSize(int page_size);

// ---- Implementation only ----

template <typename Response>
absl::StatusOr<Response> ClusterState::Once(
    const RequestKey& key, const std::function<absl::StatusOr<Response>(Transaction*)>& change) {
  MutexLock lock(&mutex_);
  const Moment now = Now();
  const absl::StatusOr<std::optional<RequestRecord>> earlier = FindAnswer(key, now.wall);
  if (!earlier.ok()) return earlier.status();
  if (earlier->has_value()) {
    Response response;
    if (!response.ParseFromString((*earlier)->response)) {
      return absl::DataLossError("request_id: the first answer to \"" + key.request_id + "\" can't be read");
    }
    // Of what an older version has answered, the answer alone tells whose it is.
    if (!(*earlier)->key.content.empty() || NamespaceOf(response) == key.name_space) return response;
  }
  Transaction transaction(tables_, now);
  absl::StatusOr<Response> response = change(&transaction);
  if (!response.ok()) return response.status();
  messages::BoundText(std::string::npos, &*response);
  // What leaves no trace on disk may as well be done again.
  if (!transaction.in_memory_only()) {
    transaction.SetRequest({key, response->SerializeAsString(), now.wall});
  }
  if (const absl::Status status = Commit(&transaction); !status.ok()) return status;
  return response;
}

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_CLUSTER_STATE_H_
