// The part of ReplicaManager that concerns the node's GPUs as a whole.

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "services/worker/replica_manager.h"

namespace adaptdl::worker {

void ReplicaManager::SetOfferSink(OfferSink sink) {
  MutexLock lock(&mutex_);
  offer_sink_ = std::move(sink);
}

void ReplicaManager::SetUnfitGpus(std::set<std::string> devices, std::vector<std::string> problems) {
  MutexLock lock(&mutex_);
  devices_.SetUnfit(std::move(devices));
  Offer(std::move(problems));
}

void ReplicaManager::ReleaseDevices(const std::string& replica_id) {
  devices_.Release(replica_id);
  Offer(offer_.problems);
}

void ReplicaManager::Offer(std::vector<std::string> problems) {
  GpuOffer offer = {.count = devices_.offered(), .problems = std::move(problems)};
  if (offer == offer_) return;
  offer_ = std::move(offer);
  if (offer_sink_) offer_sink_(offer_);
}

}  // namespace adaptdl::worker
