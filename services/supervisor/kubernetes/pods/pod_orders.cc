#include "services/supervisor/kubernetes/pods/pod_orders.h"

#include <utility>

namespace adaptdl::supervisor {

void PodOrders::Launch(const std::string& node_id, const v1::LaunchReplica& launch) {
  MutexLock lock(&mutex_);
  PodOrder& order = orders_[launch.replica_id()];
  order.node_id = node_id;
  order.launch = launch;
}

void PodOrders::Stop(const std::string& node_id, const v1::StopReplica& stop) {
  MutexLock lock(&mutex_);
  PodOrder& order = orders_[stop.replica_id()];
  order.node_id = node_id;
  order.stop = stop;
}

void PodOrders::Acknowledge(const std::string& node_id, const std::string& replica_id) {
  MutexLock lock(&mutex_);
  PodOrder& order = orders_[replica_id];
  order.node_id = node_id;
  order.acknowledged = true;
}

PodOrder PodOrders::Take(const std::string& replica_id) {
  MutexLock lock(&mutex_);
  const auto found = orders_.find(replica_id);
  if (found == orders_.end()) return {};
  PodOrder order = std::move(found->second);
  orders_.erase(found);
  return order;
}

void PodOrders::GiveBack(const std::string& replica_id, PodOrder order) {
  if (order.IsEmpty()) return;
  MutexLock lock(&mutex_);
  PodOrder& newer = orders_[replica_id];
  if (newer.IsEmpty()) newer.node_id = order.node_id;
  if (!newer.launch.has_value()) newer.launch = std::move(order.launch);
  if (!newer.stop.has_value()) newer.stop = std::move(order.stop);
  newer.acknowledged = newer.acknowledged || order.acknowledged;
}

size_t PodOrders::size() const {
  MutexLock lock(&mutex_);
  return orders_.size();
}

}  // namespace adaptdl::supervisor
