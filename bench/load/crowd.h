// What all played nodes and replicas share: the way to the supervisor, the clock, and what was measured.
// Thread-safe.

#ifndef ADAPTDL_BENCH_LOAD_CROWD_H_
#define ADAPTDL_BENCH_LOAD_CROWD_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "adaptdl/v1/node_service.pb.h"
#include "bench/load/latencies.h"
#include "bench/load/played_training.h"
#include "bench/load/timer.h"
#include "grpcpp/channel.h"
#include "libs/base/mutex.h"

namespace adaptdl::load {

// Whoever a connection is for.
enum class Caller { kNode, kReplica, kUser };

struct Crowd {
  // A connection of its own, each time.
  std::function<std::shared_ptr<grpc::Channel>(Caller)> connect;
  // Sent by users as "authorization: Bearer ...". Empty: nothing is.
  std::string user_token;
  Timer timer;

  absl::Duration heartbeat_period = absl::Seconds(5);
  absl::Duration hints_period = absl::Seconds(30);
  // What the first replica of a job tells of it, each time.
  std::function<v1::Hints(const std::string& job)> hints = PlayedHints;
  // How long a replica of a short job runs.
  absl::Duration short_job = absl::Seconds(1);

  // From a heartbeat to its answer.
  Latencies heartbeats;
  // From the call of SubmitJob to the launch command at the node.
  Latencies launches;
  // Streams that ended though nobody asked for it, and calls that failed.
  std::atomic<int64_t> dropped = 0;
  std::atomic<bool> ending = false;

  std::atomic<int64_t> replicas_started = 0;
  std::atomic<int64_t> replicas_formed = 0;
  std::atomic<int64_t> hints_taken = 0;
  std::atomic<int64_t> watched_messages = 0;
  std::atomic<int64_t> watched_jobs = 0;

  // Called for every replica that a node is to launch. Set before the first one registers.
  std::function<void(const v1::LaunchReplica&)> on_launch;
};

}  // namespace adaptdl::load

#endif  // ADAPTDL_BENCH_LOAD_CROWD_H_
