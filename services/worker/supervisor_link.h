// The worker's line to the supervisor: registers the node, holds the one stream, and never gives up.
//
//   ┌──▶ register ──▶ connected: hello with the inventory, heartbeats and reports up, commands down
//   │       │              │
//   └───────┴──(any error)─┘   after a back-off that doubles up to a bound, with jitter; at the next address.
//                              At once, and at the same one, when what the node offers has changed
//
// Of several supervisors one leads. One whose term is smaller than the largest seen is refused, since another
// has taken over from it; one that does not answer heartbeats is left, if there is another to try.
//
// Every connection begins with a registration, so an ABORTED session needs no case of its own. Replicas run
// on while the supervisor is away.
//
// Two threads: one registers and reads commands, one writes. Thread-safe.

#ifndef ADAPTDL_SERVICES_WORKER_SUPERVISOR_LINK_H_
#define ADAPTDL_SERVICES_WORKER_SUPERVISOR_LINK_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "adaptdl/v1/node.pb.h"
#include "adaptdl/v1/node_service.grpc.pb.h"
#include "libs/base/mutex.h"
#include "libs/rpc/endpoints.h"

namespace adaptdl::worker {

// What the link asks of the node and tells it. Called from the link's threads, which carry the heartbeats:
// none of these may wait for a disk, or for a lock that is held while somebody does.
class LinkHandler {
 public:
  virtual ~LinkHandler() = default;
  virtual std::vector<v1::ReplicaReport> Inventory() = 0;
  virtual std::vector<v1::ReplicaReport> Unacknowledged() = 0;
  virtual std::vector<int> FreePorts() = 0;
  // How much of the machine is in use. Absent: not known.
  virtual std::optional<v1::MachineUse> Use() = 0;
  virtual void OnCommand(const v1::ConnectResponse& command) = 0;
};

class SupervisorLink {
 public:
  struct Options {
    // What to register first; Offer() changes it.
    v1::Node node;
    // Time between attempts: doubles from the first to the second, each shortened by up to half at random.
    absl::Duration initial_backoff = absl::Milliseconds(100);
    absl::Duration max_backoff = absl::Seconds(2);
    // Deadline of the registration.
    absl::Duration register_timeout = absl::Seconds(10);
    // With several supervisors: the first such deadline, which doubles with each failure; the longest time
    // between two attempts and between two heartbeats; and how long a heartbeat may remain unanswered.
    absl::Duration first_register_timeout = absl::Seconds(1);
    absl::Duration max_failover_backoff = absl::Milliseconds(500);
    absl::Duration max_heartbeat_period = absl::Seconds(1);
    absl::Duration answer_timeout = absl::Milliseconds(1500);
  };

  // `handler` must outlive the link.
  SupervisorLink(Options options, std::unique_ptr<rpc::Endpoints> supervisors, LinkHandler* handler);
  // Ends the stream.
  ~SupervisorLink();

  void Start();

  // Sends the report, or one for the same replica that comes after it.
  void Report(const v1::ReplicaReport& report);

  // Tells the supervisor that the node goes away, now and after each reconnection.
  void AnnouncePreemption(const v1::PreemptionNotice& notice);

  // Tells the supervisor which ports are free now.
  void AnnounceFreePorts();

  // From now on the node offers so many GPUs, and this is wrong with it (v1::Node.problems): registers it
  // anew.
  void Offer(int gpus, const std::vector<std::string>& problems);

  // What the cloud calls the machine (v1::Node.instance_id), which was not known before: registers the node anew.
  void SetInstance(const std::string& instance_id);

  // Tells the supervisor that nothing of a deleted job is left. Not after a reconnection: it asks again then.
  void ConfirmDeletion(const std::string& job_uid);

  bool connected() const;

  // Ends the stream and the threads. Idempotent.
  void Shutdown();

 private:
  using Stream = grpc::ClientReaderWriter<v1::ConnectRequest, v1::ConnectResponse>;

  void Run();
  // One registration and one stream, to its end. `*heard` tells whether the supervisor took the stream.
  absl::Status RunSession(const rpc::Endpoint& supervisor, bool* heard);
  absl::Status Register(v1::NodeService::Stub* stub, v1::RegisterNodeResponse* response);
  void WriteUntilDone(Stream* stream, int64_t session_id, absl::Duration period);
  bool WriteHello(Stream* stream, int64_t session_id);
  // Whether the supervisor has left a heartbeat unanswered for too long.
  bool IsSilent(absl::Time now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What to send next; waits for it until `period` has passed since the last heartbeat.
  std::vector<v1::ConnectRequest> NextMessages(absl::Duration period, absl::Time* next_heartbeat);
  // Returns false if the link is to end.
  bool WaitBeforeRetry(absl::Duration pause);
  // Returns false if the call is not to be made: the link ends, or the node has to register first.
  bool SetContext(grpc::ClientContext* context);
  // Whether the node has changed since it was registered.
  bool NodeHasChanged() const;

  const Options options_;
  const std::unique_ptr<rpc::Endpoints> supervisors_;
  LinkHandler* const handler_;

  // Used by the thread that registers.
  int64_t newest_term_ = 0;
  absl::Duration register_timeout_;

  mutable Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool stream_done_ ABSL_GUARDED_BY(mutex_) = false;
  bool connected_ ABSL_GUARDED_BY(mutex_) = false;
  // Whether the supervisor answers heartbeats, and since when one has waited for that.
  bool answers_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time unanswered_since_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  grpc::ClientContext* context_ ABSL_GUARDED_BY(mutex_) = nullptr;  // of the call in progress
  v1::Node node_ ABSL_GUARDED_BY(mutex_);
  bool node_changed_ ABSL_GUARDED_BY(mutex_) = false;  // since it was registered
  // Latest report of each replica that is to be sent, in order of their first change.
  std::map<std::string, v1::ReplicaReport> reports_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> report_order_ ABSL_GUARDED_BY(mutex_);
  std::optional<v1::PreemptionNotice> notice_ ABSL_GUARDED_BY(mutex_);
  bool notice_due_ ABSL_GUARDED_BY(mutex_) = false;
  bool ports_due_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<std::string> deleted_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_SUPERVISOR_LINK_H_
