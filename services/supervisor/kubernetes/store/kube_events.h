// What happens to jobs and quotas, told to the cluster as Events (events.k8s.io/v1) about their objects, for `kubectl describe`.
// Best effort: what the server does not take is lost, and so is what comes when too much waits.
//
// Owns a thread, which makes the calls; the destructor ends it, with what waits still. Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_STORE_KUBE_EVENTS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_STORE_KUBE_EVENTS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <stop_token>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "adaptdl/v1/event.pb.h"
#include "libs/base/mutex.h"
#include "libs/kube/client/client.h"
#include "libs/kube/json/json.h"

namespace adaptdl::supervisor {

class KubeEvents {
 public:
  static constexpr size_t kMostWaiting = 1000;

  // The client, whose session should be no other's (`patience` and rate as low as one likes), outlives it. `instance`: who
  // tells, such as the name of the supervisor's pod.
  KubeEvents(const kube::Client* client, std::string instance);
  ~KubeEvents();

  void Tell(const v1::Event& event);
  // A warning about an object of the cluster, which is no job.
  void Warn(const kube::Json& object, const std::string& reason, const std::string& note, absl::Time time);

  // Waits until all that was told before is told or lost. For tests.
  void Flush();
  // Events that were lost.
  int64_t lost() const;

 private:
  void Add(kube::Json event);
  void Run(const std::stop_token& stop);

  const kube::Client& client_;
  const std::string instance_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<kube::Json> waiting_ ABSL_GUARDED_BY(mutex_);
  bool telling_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t lost_ ABSL_GUARDED_BY(mutex_) = 0;
  std::jthread thread_;
};

// The object that is created.
kube::Json EventObject(const v1::Event& event, const std::string& instance);

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_STORE_KUBE_EVENTS_H_
