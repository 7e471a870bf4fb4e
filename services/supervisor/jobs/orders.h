// What the state machine wants of a job, turned into changes of its replicas and into commands to nodes and
// replicas, which are effects of the transaction.
//
// Thread-safe; transactions are used by one thread.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_JOBS_ORDERS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_JOBS_ORDERS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "adaptdl/v1/node_service.pb.h"
#include "libs/base/mutex.h"
#include "libs/jobs/state_machine.h"
#include "services/supervisor/jobs/group.h"
#include "services/supervisor/state/transaction.h"
#include "services/supervisor/traces/job_tracer.h"

namespace adaptdl::supervisor {

// The secret of a job's group, which it gets once: a new one, or the one that it has for ever.
using GroupTokenSource = std::function<std::string(const std::string& job_uid, int64_t group)>;

class Orders {
 public:
  explicit Orders(GroupTokenSource token_of) : token_of_(std::move(token_of)) {}

  // From now on launches tell replicas this URL of AdaptDL's HTTP interface ("http://host:port"; the host may
  // be empty, see v1::AdaptdlHttp), with the replica's own path behind it.
  // `known_by_host`: without, as replicas have addresses of their own.
  void ServeAdaptdl(const std::string& url, bool known_by_host = false);
  // From now on launches tell replicas which trace they are part of. Before changes; may be null.
  void SetTracer(JobTracer* tracer) { tracer_ = tracer; }
  // Whether rank 0 of each group needs a port of its node, to be met there by programs of AdaptDL's Python package.
  bool needs_ports() const {
    const AdaptdlHttp http = this->http();
    return !http.url.empty() && !http.known_by_host;
  }

  // A new group of new replicas.
  void Launch(Transaction* transaction, const std::string& uid, const jobs::LaunchGroup& launch) const;
  // A replica more, for a plan of the job.
  void LaunchNewcomer(Transaction* transaction, const std::string& uid,
                      const jobs::LaunchNewcomer& launch) const;
  // Sends the command for a replica that is to be there; `index`: in JobEntry::replicas.
  void LaunchAgain(Transaction* transaction, const JobEntry& job, int index) const;
  // Gives the job's group and its plans their secrets, and forgets old ones that nobody can hold any more.
  void MintTokens(JobEntry* job) const;
  // Tells all members of the current group, and newcomers of what they wait for, the newest plan.
  static void Offer(Transaction* transaction, const std::string& uid);
  // Tells one of them the plan as it stands, or the group.
  static void TellPlan(Transaction* transaction, const JobEntry& job, const std::string& replica_id);
  // Gives the members their new groups and ranks, and forgets those that have ended.
  static void Enter(Transaction* transaction, const std::string& uid, const jobs::Entered& entered);
  static void Stop(Transaction* transaction, const std::string& uid, const jobs::StopOrder& stop);
  // Sends the command alone.
  static void SendStop(Transaction* transaction, const JobEntry& job, const std::string& node_id,
                       const std::string& replica_id, const std::string& reason, bool at_once = false);

  // A port of the node that no living replica was given; 0: there is none.
  static int ChoosePort(const Transaction& transaction, const std::string& node_id);

 private:
  struct AdaptdlHttp {
    // Empty: AdaptDL's Python package is not served.
    std::string url;
    bool known_by_host = false;
  };

  AdaptdlHttp http() const;
  // Where rank 0 of the group listens, on this node.
  int MasterPortOf(const Transaction& transaction, const jobs::LaunchGroup& launch) const;
  v1::LaunchReplica LaunchCommand(const JobEntry& job, int index, const GroupSize& size) const;

  const GroupTokenSource token_of_;
  JobTracer* tracer_ = nullptr;
  mutable Mutex mutex_;
  AdaptdlHttp http_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_JOBS_ORDERS_H_
