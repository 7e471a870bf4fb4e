// Who belongs to a job's group: replicas that show who they are, meet at the rendezvous of a group that
// starts, and enter the next one when the job changes over in place. Thread-safe; all errors are those that
// replicas see.
//
// UNAUTHENTICATED or NOT_FOUND: a stranger, who learns nothing. ABORTED: the replica's group is over.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_REPLICAS_MEMBERSHIP_H_
#define ADAPTDL_SERVICES_SUPERVISOR_REPLICAS_MEMBERSHIP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "adaptdl/v1/replica_service.pb.h"
#include "services/supervisor/jobs/reconciler.h"
#include "services/supervisor/replicas/group_views.h"
#include "services/supervisor/replicas/replica_context.h"
#include "services/supervisor/replicas/replica_hosts.h"
#include "services/supervisor/replicas/replica_proof.h"
#include "services/supervisor/replicas/replica_sessions.h"
#include "services/supervisor/replicas/report_limiter.h"
#include "services/supervisor/state/core.h"

namespace adaptdl::supervisor {

class Membership {
 public:
  // All outlive it.
  Membership(Core* core, Reconciler* reconciler, ReplicaSessions* sessions, ReportLimiter* limiter)
      : core_(core), reconciler_(reconciler), sessions_(sessions), limiter_(limiter) {}

  // Replicas may prove who they are in this way, too. It outlives the membership. Before anything else.
  void SetProof(ReplicaProof* proof) { proof_ = proof; }

  // Replicas have addresses of their own, by which they meet and are known over HTTP. It outlives the membership. Before
  // anything else.
  void SetHosts(const ReplicaHosts* hosts) { hosts_ = hosts; }
  bool knows_hosts() const { return hosts_ != nullptr; }

  // `token`: of the group, or one that proves who has it. May wait for the proof.
  absl::StatusOr<ReplicaContext> Authorize(const v1::ReplicaIdentity& identity,
                                           const std::string& token) const;
  // NOT_FOUND: nobody's URL, or that of a group that is over. UNAVAILABLE: it is not known yet where all members are; ask again.
  absl::StatusOr<ReplicaContext> AuthorizeUrl(const UrlIdentity& identity) const;

  absl::Status Join(const ReplicaContext& replica, const std::string& address, bool rescales_in_place);
  // The replica has come to the rendezvous of the group that was launched after so many restarts.
  absl::Status JoinByUrl(const ReplicaContext& replica, int64_t restarts);
  // Who is missing, or the formed group. ABORTED: the group is over.
  absl::StatusOr<v1::JoinGroupResponse> DescribeRendezvous(const ReplicaContext& replica, bool omit_members);
  // Hosts of the group's members, by rank; none while some have not come. NOT_FOUND: the group is over.
  absl::StatusOr<std::vector<std::string>> FindHosts(const std::string& job_uid, int64_t group) const;
  // The replica sends heartbeats for its group, which, if it was a plan and the replica `trains`, is the
  // current one from now on.
  absl::StatusOr<Instructions> Attach(const ReplicaContext& replica, bool trains);

 private:
  // Whether the replica may speak as a member of `group`.
  bool MaySpeak(const JobEntry& job, const ReplicaRecord& replica, int64_t group) const;
  // `proven`: whether it is the replica is beyond doubt, whatever the token.
  absl::StatusOr<ReplicaContext> AuthorizeFor(const v1::ReplicaIdentity& identity, const std::string& token,
                                              bool proven) const;
  absl::StatusOr<ReplicaContext> AuthorizeIn(const JobEntry* job, const v1::ReplicaIdentity& identity,
                                             const std::string& token, bool proven) const;
  // The member at this address; -1: none, or more than one.
  int RankAt(const GroupMembers& members, const std::string& host) const;
  bool AllHaveHosts(const GroupMembers& members) const;
  // Where the others of its group find it. Empty: that is not known.
  std::string HostOf(const Tables& tables, const v1::Replica& replica) const;
  absl::Status JoinIn(Transaction* transaction, const ReplicaContext& replica, const std::string& address,
                      bool rescales_in_place);
  // The join that was just noted may have been the last one: then the group has met.
  void NoteMet(Transaction* transaction, const std::string& uid, bool again);
  // What follows from it otherwise.
  void NoteJoined(Transaction* transaction, const std::string& uid, bool newcomer);
  // Those that asked for their plan before all whom it names were reachable are told it once they are. Whether they
  // are.
  bool TellOwedPlans(Transaction* transaction, const std::string& uid);
  absl::StatusOr<v1::JoinGroupResponse> DescribeFor(const Tables& tables, const ReplicaContext& replica,
                                                    bool omit_members);
  absl::Status Enter(Transaction* transaction, const ReplicaContext& replica);
  absl::StatusOr<Instructions> InstructionsFor(const Tables& tables, const ReplicaContext& replica) const;

  Core* const core_;
  Reconciler* const reconciler_;
  ReplicaSessions* const sessions_;
  ReportLimiter* const limiter_;
  // Null: the group's token is all that counts.
  ReplicaProof* proof_ = nullptr;
  // Null: replicas have the addresses of their nodes.
  const ReplicaHosts* hosts_ = nullptr;
  GroupViews views_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_REPLICAS_MEMBERSHIP_H_
