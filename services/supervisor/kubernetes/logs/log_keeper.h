// Copies what replicas have written to where it outlasts their pods (kept_logs.h).
//
//   pod ends by itself               read, then its finalizer goes (Detain)
//   we delete a pod, or others do    followed from then on (Follow, Observe) until its container ends
//
// The pods of some thousand replicas that run cost nothing: there are so many followers, and so many readers for those
// that have ended. A pod that no follower was free for is read when it has ended. None is waited for longer than a
// short patience: what could not be read by then is lost, and the file says so.
//
// Thread-safe; no call waits. Borrows its parts. Owns its threads, which Stop() and the destructor end.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_LOGS_LOG_KEEPER_H_
#define ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_LOGS_LOG_KEEPER_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/base/clock.h"
#include "libs/base/mutex.h"
#include "libs/kube/client/client.h"
#include "services/supervisor/kubernetes/logs/kept_logs.h"
#include "services/supervisor/kubernetes/logs/pod_log.h"
#include "services/supervisor/kubernetes/pods/output_keeper.h"
#include "services/supervisor/kubernetes/pods/pod.h"

namespace adaptdl::supervisor {

struct LogKeeperParts {
  const kube::Client* client = nullptr;
  const Clock* clock = nullptr;
  KeptLogs* kept = nullptr;
  // Whether the pod is a replica of a job that is known, in the job's namespace.
  std::function<bool(const Pod& pod)> is_known = nullptr;
  // The pod of the replica need not stay any longer; on a thread of the keeper's, with no lock held.
  std::function<void(const std::string& replica_id)> settled = nullptr;
  // Told of what can't be written; on any thread. Null: nobody is.
  std::function<void(const std::string& what, const absl::Status&)> report = nullptr;
};

struct LogKeeperOptions {
  // Of each replica; the last ones.
  size_t keep_bytes = 1 << 20;
  int followers = 64;
  int readers = 16;
  absl::Duration patience = absl::Seconds(10);
  PodLogPauses pauses = {};
};

class LogKeeper final : public OutputKeeper {
 public:
  LogKeeper(const LogKeeperParts& parts, const LogKeeperOptions& options);
  ~LogKeeper() override;

  void Follow(const PodValue& pod) override;
  absl::Duration Detain(const PodValue& pod) override;
  // A pod has come, has changed or is gone: `before` or `after` is null.
  void Observe(const PodValue& before, const PodValue& after);
  // Deletes soon what was kept of jobs that are gone.
  void Sweep(std::function<bool(const std::string& job_uid)> job_is_there);

  // Nothing is read or told any more. Pods that are detained stay so: the next leader sees to them.
  void Stop();

 private:
  struct Output {
    explicit Output(PodValue of) : pod(std::move(of)) {}

    // As it was first heard of: threads read it with no lock held, and what they need of a pod never changes.
    const PodValue pod;
    std::stop_source stop = {};
    // Whether a thread has it, and whether the pod need not stay for it any longer.
    bool is_taken = false;
    bool is_settled = false;
    // Until when it may stay. Infinite: it need not stay yet.
    absl::Time deadline = absl::InfiniteFuture();
  };
  using OutputRef = std::shared_ptr<Output>;

  OutputRef Find(const PodValue& pod) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Waits for one. Null: all is to end.
  OutputRef Take(std::deque<OutputRef>* queue);
  void Run(std::deque<OutputRef>* queue, bool follow);
  void RunSweeps();
  bool IsEnding();
  // What can be had of it.
  absl::Status Read(const Output& output, bool follow, KeptLog* log) const;
  void Keep(const Output& output, const absl::Status& status, const KeptLog& log) const;
  // `is_over`: it is not tried again.
  void Settle(const OutputRef& output, bool is_over);

  const LogKeeperParts parts_;
  const LogKeeperOptions options_;
  Mutex mutex_;
  CondVar changed_;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  // By uid of the pod.
  std::map<std::string, OutputRef> outputs_ ABSL_GUARDED_BY(mutex_);
  // Those that were taken by others, or are settled, are passed over.
  std::deque<OutputRef> to_follow_ ABSL_GUARDED_BY(mutex_);
  std::deque<OutputRef> to_read_ ABSL_GUARDED_BY(mutex_);
  std::function<bool(const std::string&)> sweep_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_LOGS_LOG_KEEPER_H_
