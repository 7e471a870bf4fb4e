// What becomes of the jobs of a live run, as their supervisor tells it. Thread-safe.

#ifndef ADAPTDL_BENCH_REPLAY_JOB_WATCH_H_
#define ADAPTDL_BENCH_REPLAY_JOB_WATCH_H_

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "adaptdl/v1/job_service.grpc.pb.h"
#include "libs/base/mutex.h"

namespace adaptdl::replay {

class JobWatch {
 public:
  struct Seen {
    v1::Job job;
    // When replicas were first launched, by the clock of this process.
    std::optional<absl::Time> launched;
    // When it ended.
    std::optional<absl::Time> ended;
    // Replicas that it has, since when, and the sum of what was before that.
    int replicas = 0;
    absl::Time since = absl::InfinitePast();
    absl::Duration replica_time = absl::ZeroDuration();
    // Since when its replicas are changed in place, and how long changes that brought new ones have waited for these.
    std::optional<absl::Time> changing;
    std::vector<absl::Duration> newcomers;
  };

  // Watches until it is destroyed. `jobs` outlives it.
  explicit JobWatch(v1::JobService::Stub* jobs);
  ~JobWatch();

  std::map<std::string, Seen> All() const;
  int finished() const;
  // Waits until `condition` holds of all jobs, looking again with each change, or until `deadline`. Whether it does.
  bool Await(const std::function<bool(const std::map<std::string, Seen>&)>& condition,
             absl::Time deadline) const;

 private:
  void Run();
  void Take(const v1::Job& job);
  static void TakeChange(const v1::Job& job, absl::Time now, Seen* seen);

  v1::JobService::Stub* const jobs_;
  grpc::ClientContext context_;
  mutable Mutex mutex_;
  mutable CondVar changed_;
  std::map<std::string, Seen> seen_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace adaptdl::replay

#endif  // ADAPTDL_BENCH_REPLAY_JOB_WATCH_H_
