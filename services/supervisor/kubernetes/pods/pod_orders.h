// What is to be done with pods and was not done yet, merged for each: however often something is ordered, it is
// done once.
//
// Thread-safe. Owns what it holds. No call fails.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_PODS_POD_ORDERS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_PODS_POD_ORDERS_H_

#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "adaptdl/v1/node_service.pb.h"
#include "libs/base/mutex.h"

namespace adaptdl::supervisor {

struct PodOrder {
  std::string node_id;
  std::optional<v1::LaunchReplica> launch = std::nullopt;
  std::optional<v1::StopReplica> stop = std::nullopt;
  // Its end is stored.
  bool acknowledged = false;

  bool IsEmpty() const { return !launch.has_value() && !stop.has_value() && !acknowledged; }
};

class PodOrders {
 public:
  void Launch(const std::string& node_id, const v1::LaunchReplica& launch);
  void Stop(const std::string& node_id, const v1::StopReplica& stop);
  void Acknowledge(const std::string& node_id, const std::string& replica_id);

  // All that is to be done with the pod; empty: nothing.
  PodOrder Take(const std::string& replica_id);
  // What of it is still to be done. What was ordered meanwhile is newer.
  void GiveBack(const std::string& replica_id, PodOrder order);

  // Pods for which something is.
  size_t size() const;

 private:
  mutable Mutex mutex_;
  std::map<std::string, PodOrder> orders_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_PODS_POD_ORDERS_H_
