// The addresses of replicas that are pods, as their watch has them. Thread-safe; the watch outlives it.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_PODS_POD_HOSTS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_PODS_POD_HOSTS_H_

#include <string>

#include "services/supervisor/kubernetes/pods/pod_watch.h"
#include "services/supervisor/replicas/replica_hosts.h"

namespace adaptdl::supervisor {

class PodHosts final : public ReplicaHosts {
 public:
  explicit PodHosts(const PodWatch* watch) : watch_(*watch) {}

  std::string HostOf(const std::string& replica_id) const override {
    const PodValue pod = watch_.Find(replica_id);
    return pod == nullptr ? "" : pod->ip;
  }

 private:
  const PodWatch& watch_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_PODS_POD_HOSTS_H_
