// Measured times of training steps per configuration: what the throughput model is fitted to.
//
// Thread-safety: thread-safe (the training thread adds while the reporting thread reads).

#ifndef ADAPTDL_LIBS_ELASTIC_STEP_PROFILE_H_
#define ADAPTDL_LIBS_ELASTIC_STEP_PROFILE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "libs/base/mutex.h"
#include "libs/goodput/fit.h"

namespace adaptdl::elastic {

struct ProfileKey {
  int num_nodes = 1;
  int num_replicas = 1;
  int64_t local_batch_size = 0;

  auto operator<=>(const ProfileKey&) const = default;
};

// Sums over the steps of one configuration, in seconds and counts.
struct ProfileEntry {
  double accum_step_time = 0;
  int64_t accum_count = 0;
  double optim_step_time = 0;
  double optim_sync_time = 0;
  int64_t optim_count = 0;
};

class StepProfile {
 public:
  // `sync_time`: the part of `step_time` that was spent waiting for other replicas.
  void AddOptimizerStep(const ProfileKey& key, double step_time, double sync_time);
  void AddAccumulationStep(const ProfileKey& key, double step_time);

  // Largest number of replicas that has optimiser steps. 0: none yet.
  int MaxProfiledReplicas() const;

  // Mean time of an optimiser step, and of one accumulation step with what waiting takes left out. Sync times
  // that exceed their step, and times that are not positive, are left out rather than trusted.
  std::vector<goodput::Measurement> Measurements() const;

  // Seconds of steps added since this object was made (not those loaded).
  double AddedSeconds() const;

  std::string Save() const;
  // Adds what Save() gave. DATA_LOSS: it is not of that form; nothing is changed.
  absl::Status Load(const std::string& text);

  std::map<ProfileKey, ProfileEntry> Entries() const;

 private:
  mutable Mutex mutex_;
  std::map<ProfileKey, ProfileEntry> entries_ ABSL_GUARDED_BY(mutex_);
  double added_seconds_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_STEP_PROFILE_H_
