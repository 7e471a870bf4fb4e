// The output of one pod, as its kubelet has it: it can be had while the pod is there, also when it has ended. One that
// is followed is gone on with where the connection was cut. The cluster does not say which lines went to which of
// stdout and stderr.
//
// Thread-safe; what is passed in is borrowed for the call.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_LOGS_POD_LOG_H_
#define ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_LOGS_POD_LOG_H_

#include <functional>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "adaptdl/v1/log_service.pb.h"
#include "libs/kube/client/client.h"
#include "libs/kube/json/object.h"

namespace adaptdl::supervisor {

struct PodLogRequest {
  kube::ObjectKey pod;
  std::string container;
  // Goes on until the container has ended.
  bool follow = false;
  // Only the last so many lines. 0: all.
  int tail_lines = 0;
  // Only lines from the whole second of this time on.
  absl::Time since = absl::InfinitePast();
  // Only the last `tail_lines` of those that this is in (libs/logs/line_filter.h); of no effect on others.
  std::string pattern = {};
};

// Between calls for a log that is followed.
struct PodLogPauses {
  absl::Duration first = absl::Milliseconds(200);
  absl::Duration longest = absl::Seconds(10);
};

// Takes the next lines. An error: no more of them are wanted.
using PodLogSink = std::function<absl::Status(v1::StreamReplicaLogsResponse)>;

// Leaves `last` at the time of the last line that was taken. NOT_FOUND: the pod is gone, and its output with it.
// CANCELLED: a stop was requested.
absl::Status ReadPodLog(const kube::Client& client, const PodLogRequest& request, const PodLogPauses& pauses,
                        const PodLogSink& sink, absl::Time* last, const std::stop_token& stop);

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_LOGS_POD_LOG_H_
