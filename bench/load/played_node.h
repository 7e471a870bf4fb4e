// A node of the load benchmark: registers, holds its stream, sends heartbeats, and reports what it launches
// as running and, if it belongs to a short job, as ended a little later. Starts no process.
//
// Thread-safe. Lives to the end of the process: its stream stays open.

#ifndef ADAPTDL_BENCH_LOAD_PLAYED_NODE_H_
#define ADAPTDL_BENCH_LOAD_PLAYED_NODE_H_

#include <deque>
#include <memory>
#include <string>

#include "adaptdl/v1/node_service.grpc.pb.h"
#include "bench/load/crowd.h"
#include "grpcpp/support/client_callback.h"
#include "libs/base/mutex.h"

namespace adaptdl::load {

// Jobs with this label end by themselves; the others run on.
inline constexpr char kShortLabel[] = "short";

class PlayedNode final : public grpc::ClientBidiReactor<v1::ConnectRequest, v1::ConnectResponse> {
 public:
  PlayedNode(Crowd* crowd, std::string id);

  // Registers, then opens the stream.
  grpc::Status Start(int cpu_millis);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

 private:
  void Beat();
  void Report(const v1::LaunchReplica& launch, v1::ReplicaState state);
  void Send(v1::ConnectRequest message);
  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Crowd* const crowd_;
  const std::string id_;
  const std::unique_ptr<v1::NodeService::Stub> stub_;
  grpc::ClientContext context_;
  v1::ConnectResponse in_;
  Mutex mutex_;
  std::deque<v1::ConnectRequest> out_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time beat_time_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

}  // namespace adaptdl::load

#endif  // ADAPTDL_BENCH_LOAD_PLAYED_NODE_H_
