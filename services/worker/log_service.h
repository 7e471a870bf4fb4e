// LogService: logs and files of this node's replicas, for the supervisor.
//
// Streams are reactors: none holds a thread. Followers that have read everything wait in a list, which one
// thread looks through ten times a second.
//
// Thread-safe.

#ifndef ADAPTDL_SERVICES_WORKER_LOG_SERVICE_H_
#define ADAPTDL_SERVICES_WORKER_LOG_SERVICE_H_

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "adaptdl/v1/log_service.grpc.pb.h"
#include "libs/base/mutex.h"
#include "services/worker/replica_manager.h"

namespace adaptdl::worker {

// A follower that waits for more.
class WaitingFollower {
 public:
  virtual ~WaitingFollower() = default;
  // Looks for more. Returns whether it is still waiting; if not, it must not be called again.
  virtual bool Poll() = 0;
};

// Thread-safe.
class FollowerList {
 public:
  explicit FollowerList(absl::Duration period);
  ~FollowerList();

  // Polls `follower` from now on, until its Poll() returns false.
  void Add(std::shared_ptr<WaitingFollower> follower);
  // Whether streams are to end because the worker does.
  bool ending() const;
  // Ends the streams: each follower is polled once more at once.
  void End();

 private:
  void Run();

  const absl::Duration period_;
  mutable Mutex mutex_;
  CondVar changed_;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::shared_ptr<WaitingFollower>> followers_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

class LogServiceImpl final : public v1::LogService::CallbackService {
 public:
  // `replicas` must outlive the server that this is registered with.
  LogServiceImpl(const ReplicaManager* replicas, std::string storage_folder);

  grpc::ServerWriteReactor<v1::StreamReplicaLogsResponse>* StreamReplicaLogs(
      grpc::CallbackServerContext* context, const v1::StreamReplicaLogsRequest* request) override;
  grpc::ServerWriteReactor<v1::ReadJobFilesResponse>* ReadJobFiles(
      grpc::CallbackServerContext* context, const v1::ReadJobFilesRequest* request) override;

  // Ends all streams that wait for more output.
  void EndStreams() { followers_.End(); }

 private:
  const ReplicaManager* const replicas_;
  const std::string storage_folder_;
  FollowerList followers_;
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_LOG_SERVICE_H_
