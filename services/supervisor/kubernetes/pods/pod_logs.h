// The output of a replica, as its kubelet has it: what a worker's LogService is elsewhere. It can be had while the
// pod is there: also when it has ended, for those that are kept, and not when it is deleted.
//
// Read one message ahead and no more, by a thread of its own: whoever reads slowly slows the kubelet down instead
// of filling memory. A log that is followed is gone on with where the connection was cut. The cluster does not say
// which lines went to which of stdout and stderr.
//
// The interface is RemoteReader's (services/supervisor/logs/remote_reader.h). Thread-safe. Borrows the client.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_PODS_POD_LOGS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_PODS_POD_LOGS_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "adaptdl/v1/log_service.pb.h"
#include "grpcpp/support/status.h"
#include "libs/base/mutex.h"
#include "libs/kube/client/client.h"
#include "libs/kube/json/object.h"

namespace adaptdl::supervisor {

// Lines of a log as the kubelet sends it, with its times: "2026-01-02T03:04:05.123456789Z text". Of text without a
// time, the time is that of the line before.
class PodLogParser {
 public:
  // Lines that were told up to this time are left out.
  explicit PodLogParser(absl::Time after = absl::InfinitePast()) : after_(after) {}

  // Takes a part of the log; adds lines that are whole, or longer than 16 KiB.
  void Feed(absl::string_view part, v1::StreamReplicaLogsResponse* lines);
  // The log has ended: so has its last line.
  void Finish(v1::StreamReplicaLogsResponse* lines);

  // Of the last line.
  absl::Time last() const { return last_; }

 private:
  void AddLine(absl::string_view text, bool partial, v1::StreamReplicaLogsResponse* lines);

  const absl::Time after_;
  absl::Time last_ = absl::InfinitePast();
  // Whether the line that is being read has begun in an entry before.
  bool is_continued_ = false;
  std::string unfinished_;
};

struct PodLogRequest {
  kube::ObjectKey pod;
  std::string container;
  bool follow = false;
  // Only the last so many lines. 0: all.
  int tail_lines = 0;
};

class PodLogReader {
 public:
  enum class State { kWaiting, kReady, kDone };

  // `notify` is called when the state has changed, with no lock held, until Abandon().
  static std::shared_ptr<PodLogReader> Start(const kube::Client* client, PodLogRequest request,
                                             std::function<void()> notify);
  // Ends it, and waits for its thread.
  ~PodLogReader();
  PodLogReader(const PodLogReader&) = delete;
  PodLogReader& operator=(const PodLogReader&) = delete;

  State state() const;
  // In State::kDone. NOT_FOUND: the pod is gone, and its output with it.
  grpc::Status status() const;
  // In State::kReady.
  v1::StreamReplicaLogsResponse Take();
  // Nobody will ask any more. Ends the call; does not wait for that.
  void Abandon();

 private:
  PodLogReader(const kube::Client* client, PodLogRequest request, std::function<void()> notify);

  void Run(const std::stop_token& stop);
  // One call. OK: the log has ended.
  absl::Status Read(absl::Time* last, const std::stop_token& stop);
  // Hands the lines over, when those before were taken. CANCELLED: nobody wants them.
  absl::Status Offer(v1::StreamReplicaLogsResponse* lines, const std::stop_token& stop);
  void Notify();

  const kube::Client& client_;
  const PodLogRequest request_;

  mutable Mutex mutex_;
  CondVar changed_;
  std::function<void()> notify_ ABSL_GUARDED_BY(mutex_);
  bool ready_ ABSL_GUARDED_BY(mutex_) = false;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  v1::StreamReplicaLogsResponse incoming_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::jthread thread_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_PODS_POD_LOGS_H_
