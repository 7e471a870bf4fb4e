// A port of this machine that leads to one of a pod or service, by `kubectl port-forward`.
//
//   PortForward forward(kubectl, {.name_space = "adaptdl", .target = "pod/adaptdl-supervisor-0", .port = 7100});
//   const absl::StatusOr<int> port = forward.WaitForPort(absl::Seconds(10));
//
// kubectl ends when a connection is refused or its pod goes; it is started again, with the same local port, for as long as the object
// lives. Thread-safe. Owns a thread, and the child, which ends with it.

#ifndef ADAPTDL_CLI_KUBERNETES_PORT_FORWARD_H_
#define ADAPTDL_CLI_KUBERNETES_PORT_FORWARD_H_

#include <sys/types.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/kubernetes/kubectl.h"
#include "libs/base/mutex.h"

namespace adaptdl::cli {

class PortForward {
 public:
  struct Options {
    std::string name_space;
    // "pod/NAME", "service/NAME".
    std::string target;
    int port = 0;
    // Where it listens. Port 0: any free one.
    std::string local_address = "127.0.0.1";
    int local_port = 0;
  };

  // Begins at once, and does not wait.
  PortForward(Kubectl kubectl, Options options);
  ~PortForward();
  PortForward(const PortForward&) = delete;
  PortForward& operator=(const PortForward&) = delete;

  // The local port, once connections can be made. Otherwise: kubectl's own words, or DEADLINE_EXCEEDED.
  absl::StatusOr<int> WaitForPort(absl::Duration timeout);
  // Waits until it has ended for good: it never listened.
  absl::Status Wait();

 private:
  void Keep(const std::stop_token& stop);
  // Runs kubectl once, to its end.
  void RunOnce(const std::stop_token& stop);
  void TakeLine(const std::string& line);
  std::vector<std::string> Arguments();
  void Kill();

  const Kubectl kubectl_;
  const Options options_;

  Mutex mutex_;
  CondVar changed_;
  pid_t child_ ABSL_GUARDED_BY(mutex_) = 0;
  // 0: it does not listen yet.
  int port_ ABSL_GUARDED_BY(mutex_);
  bool has_listened_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_over_ ABSL_GUARDED_BY(mutex_) = false;
  // Of the end of the last child.
  absl::Status why_ ABSL_GUARDED_BY(mutex_);

  std::jthread thread_;
};

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_KUBERNETES_PORT_FORWARD_H_
