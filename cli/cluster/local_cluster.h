// A cluster of the real programs on this machine, with all its state in one folder:
//
//   cluster.json               settings and addresses (record.h)
//   lock                       held while a command changes the cluster
//   run/<service>.pid          "pid starttime" of supervisor, allocator, autoscaler
//   run/<service>.address      written by the service once it listens
//   logs/<service>.log
//   security/                  the private authority and the services' certificates (libs/certificates),
//   security/tokens.json       the tokens that the services accept,
//   security/admin.token       and the one of this user
//   supervisor/                the supervisor's state
//   autoscaler/nodes/<node>/   the autoscaler's workers, with their pid files and state
//   storage/                   checkpoints and shared files of jobs
//
// Not thread-safe.

#ifndef ADAPTDL_CLI_CLUSTER_LOCAL_CLUSTER_H_
#define ADAPTDL_CLI_CLUSTER_LOCAL_CLUSTER_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "cli/cluster/record.h"
#include "cli/context.h"
#include "libs/base/clock.h"
#include "libs/base/process/process_identity.h"
#include "libs/rpc/security.h"

namespace adaptdl::cli {

// In the order in which they start.
inline constexpr const char* kServices[] = {"supervisor", "allocator", "autoscaler"};

// How long a service may take to say that it is well.
inline constexpr absl::Duration kHealthTimeout = absl::Seconds(2);

// Called with lines that tell the user what goes on.
using Progress = std::function<void(absl::string_view)>;

struct UpOptions {
  // Settings that are not given are those of the last time, else the defaults of docs/cli.md.
  std::optional<int> workers = std::nullopt;
  std::optional<int> max_workers = std::nullopt;
  std::optional<int> cpus_per_worker = std::nullopt;
  // Port of the supervisor. 0: any free one.
  std::optional<int> port = std::nullopt;
  bool listen_metrics = false;
  // Without certificates and tokens: every user of this machine can submit jobs that run as this one.
  bool insecure = false;
  absl::Duration timeout = absl::Seconds(60);
};

struct DownOptions {
  // Ends everything at once, without checkpoints.
  bool force = false;
  // Removes the state, too.
  bool purge = false;
  // Time that replicas get to write their checkpoints.
  absl::Duration timeout = absl::Seconds(60);
};

struct ServiceState {
  std::string name;
  // 0: not running.
  pid_t pid = 0;
  std::string address;
  // "SERVING" and so on; "DOWN" without a process, "UNREACHABLE" without an answer.
  std::string health;
};

class LocalCluster {
 public:
  // `binaries`: the folder of the programs. `folder` need not exist. `clock` must outlive it.
  LocalCluster(std::string folder, std::string binaries, const Clock* clock, Progress progress);

  const std::string& folder() const { return folder_; }

  // Starts what is missing and waits until all are healthy and the nodes are ready. On failure, what this
  // call started is stopped again, and the error holds the end of the log that says why. ABORTED: another
  // command is at work.
  absl::StatusOr<ClusterRecord> Up(const UpOptions& options);

  // Stops everything, checks that nothing is left, and keeps the state unless told otherwise. Jobs that had
  // not finished go on when the cluster comes up again.
  absl::Status Down(const DownOptions& options);

  std::vector<ServiceState> Status() const;
  // For calls to its supervisor: where it is and how to talk to it.
  Context ClientContext() const;
  // Pids of the workers that live.
  std::vector<ProcessIdentity> Workers() const;

 private:
  std::string PidFile(absl::string_view service) const;
  std::string AddressFile(absl::string_view service) const;
  std::string LogFile(absl::string_view service) const;
  std::vector<std::string> CommandLine(absl::string_view service, const ClusterRecord& record) const;

  absl::Status MakeFolders() const;
  // Certificates, and a token for this user, unless the record says that the cluster does without.
  absl::Status Secure(const ClusterRecord& record) const;
  absl::Status MakeAdminToken(const ClusterRecord& record) const;
  std::string SecurityFile(absl::string_view file) const;
  // How to talk to a service.
  rpc::ClientSecurity SecurityOf(absl::string_view service, const ClusterRecord& record) const;
  // Whether anything of the cluster runs.
  bool RunsInPart() const;
  // What the new settings are, from the options, the last record and the defaults.
  absl::StatusOr<ClusterRecord> Settle(const UpOptions& options) const;
  // The process of a service if it lives.
  std::optional<ProcessIdentity> Running(absl::string_view service) const;
  // Whether it may listen on another port than the last time, which somebody else may have got since: nobody who runs has
  // been told of that.
  bool MayMove(absl::string_view service) const;
  // Makes the service run and answer; writes down its address in `record`. Adds to started_.
  absl::Status Ensure(absl::string_view service, absl::Time deadline, ClusterRecord* record);
  absl::Status WaitUntilHealthy(absl::string_view service, const ProcessIdentity& process,
                                const ClusterRecord& record, absl::Time deadline, std::string* address) const;
  // Waits for as many nodes as the record says, ready and heard at or after `heard_since`.
  absl::Status WaitForNodes(const ClusterRecord& record, absl::Time heard_since, absl::Time deadline) const;
  absl::Status StartAll(const UpOptions& options, ClusterRecord* record);

  // Ends a service that runs; false if it can't be ended.
  bool Stop(absl::string_view service, absl::Duration grace);
  // Moves all replicas off all nodes, so that they write checkpoints; gives up after `timeout`.
  void DrainNodes(absl::Duration timeout) const;
  // Takes nodes whose workers have ended off the supervisor's list: no job is to be given to them later.
  void ForgetNodes() const;
  // Ends replicas that have no worker any more.
  bool StopReplicas(absl::Duration grace);
  // Ends workers, and what replicas are left.
  bool StopWorkers(absl::Duration grace, absl::Duration replica_grace);
  // Removes the cluster's state.
  absl::Status Purge() const;

  // "<text>\n<last lines of the log>".
  std::string WithLog(absl::string_view text, absl::string_view service) const;

  const std::string folder_;
  const std::string binaries_;
  const Clock* const clock_;
  const Progress progress_;
  // Services that this object has started.
  std::vector<std::string> started_;
};

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_CLUSTER_LOCAL_CLUSTER_H_
