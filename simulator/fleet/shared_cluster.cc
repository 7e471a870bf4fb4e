#include "simulator/fleet/shared_cluster.h"

#include <algorithm>

namespace adaptdl::simulator {

double SharedCluster::Rate() const { return std::min(most_per_job_, gpus_ / unfinished()); }

void SharedCluster::EndOne() {
  now_ = NextEnd();
  served_ = running_.top().first;
  sum_jct_ += now_ - running_.top().second;
  ++done_;
  running_.pop();
}

void SharedCluster::Advance(double now) {
  while (!running_.empty() && NextEnd() <= now) EndOne();
  if (!running_.empty()) served_ += Rate() * (now - now_);
  now_ = now;
}

void SharedCluster::Add(double now, double solo_seconds) {
  Advance(now);
  running_.emplace(served_ + solo_seconds, now);
  most_unfinished_ = std::max(most_unfinished_, unfinished());
  work_ += solo_seconds;
}

void SharedCluster::Drain() {
  while (!running_.empty()) EndOne();
}

}  // namespace adaptdl::simulator
