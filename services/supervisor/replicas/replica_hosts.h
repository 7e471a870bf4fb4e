// Where replicas are on the network, where each has an address of its own. Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_REPLICAS_REPLICA_HOSTS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_REPLICAS_REPLICA_HOSTS_H_

#include <string>

namespace adaptdl::supervisor {

class ReplicaHosts {
 public:
  virtual ~ReplicaHosts() = default;

  // The replica's IP address. Empty: it has none, or none that is known yet.
  virtual std::string HostOf(const std::string& replica_id) const = 0;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_REPLICAS_REPLICA_HOSTS_H_
