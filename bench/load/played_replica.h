// A replica of the load benchmark: comes to the rendezvous on a connection of its own, then sends heartbeats
// and, as rank 0, hints. Trains nothing.
//
// Thread-safe. Lives to the end of the process: its stream stays open.

#ifndef ADAPTDL_BENCH_LOAD_PLAYED_REPLICA_H_
#define ADAPTDL_BENCH_LOAD_PLAYED_REPLICA_H_

#include <functional>
#include <memory>

#include "absl/time/time.h"
#include "adaptdl/v1/node_service.pb.h"
#include "adaptdl/v1/replica_service.grpc.pb.h"
#include "bench/load/crowd.h"
#include "grpcpp/support/client_callback.h"
#include "libs/base/mutex.h"

namespace adaptdl::load {

class PlayedReplica final : public grpc::ClientBidiReactor<v1::HeartbeatRequest, v1::HeartbeatResponse> {
 public:
  PlayedReplica(Crowd* crowd, const v1::LaunchReplica& launch);

  // Comes to the rendezvous; `formed` is called when the group has formed, and heartbeats begin.
  void Join(std::function<void()> formed);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

 private:
  class Rendezvous;

  void OnFormed();
  void Beat();
  void ReportHints();
  // The heartbeat was written, or answered: when both have happened, the next one is due.
  void HalfDone();
  void Lost(const char* what, const grpc::Status& status);

  Crowd* const crowd_;
  const bool leads_;
  const std::unique_ptr<v1::ReplicaService::Stub> stub_;
  v1::ReplicaIdentity identity_;
  const std::string authorization_;
  std::unique_ptr<Rendezvous> rendezvous_;
  std::function<void()> formed_;
  grpc::ClientContext context_;
  v1::HeartbeatRequest out_;
  v1::HeartbeatResponse in_;
  Mutex mutex_;
  int open_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Time beat_time_ ABSL_GUARDED_BY(mutex_);
  // From the last heartbeat to the next.
  double periods_ ABSL_GUARDED_BY(mutex_) = 1;
};

}  // namespace adaptdl::load

#endif  // ADAPTDL_BENCH_LOAD_PLAYED_REPLICA_H_
