// Measured times of training steps per configuration: what the throughput model is fitted to.
//
// Recency: a job's speed changes with its neighbours, its data and its clock rates, so newer steps count
// more. Ages are in seconds of training, not of the clock on the wall: a job that waited for a week knows as
// much as before. With every half-life, what was measured counts half as much: among the steps of one
// configuration (its sums decay when steps are added), and among configurations
// (goodput::Measurement::weight).
//
// Outliers: a step that took more than kOutlierFactor times the median of the last steps of its kind in its
// configuration does not count (a checkpoint by another program on the disk, the first use of a kernel). The
// first steps of a process are judged together, so that one of them may be the outlier. A job that stays
// that slow is believed when half of the last steps say so.
//
// Thread-safety: thread-safe (the training thread adds while the reporting thread reads).

#ifndef ADAPTDL_LIBS_ELASTIC_PROFILE_STEP_PROFILE_H_
#define ADAPTDL_LIBS_ELASTIC_PROFILE_STEP_PROFILE_H_

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
  // Distinct GPU types that the replicas were on, ascending. Empty: none, or unknown.
  std::vector<std::string> gpu_types = {};

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy takes the operator for a zero
  auto operator<=>(const ProfileKey&) const = default;
};

// Decayed sums over the steps of one configuration: seconds, and numbers of steps.
struct ProfileEntry {
  double accum_step_time = 0;
  double accum_count = 0;
  double optim_step_time = 0;
  double optim_sync_time = 0;
  double optim_count = 0;
  // When it was measured last, in seconds of training since the job's start.
  double measured = 0;
};

class StepProfile {
 public:
  static constexpr double kOutlierFactor = 5;
  // Steps that the median is taken over, and the first ones that are judged together.
  static constexpr size_t kRecentSteps = 31;
  static constexpr size_t kFirstSteps = 5;

  // `half_life`: in seconds of training. Greater than 0.
  explicit StepProfile(double half_life = 3600) : half_life_(half_life) {}

  // `sync_time`: the part of `step_time` that was spent waiting for other replicas.
  void AddOptimizerStep(const ProfileKey& key, double step_time, double sync_time);
  void AddAccumulationStep(const ProfileKey& key, double step_time);

  // Largest number of replicas that has optimiser steps. 0: none yet.
  int MaxProfiledReplicas() const;

  // What configurations have been on, as ProfileKey::gpu_types, in the order of their last measurement.
  std::vector<std::vector<std::string>> GpuTypes() const;

  // Of the configurations on these GPU types: mean time of an optimiser step, and of one accumulation step
  // with what waiting takes left out, and how much they count. Sync times that exceed their step, and times
  // that are not positive, are left out rather than trusted.
  std::vector<goodput::Measurement> Measurements(const std::vector<std::string>& gpu_types = {}) const;

  // Seconds of steps added since this object was made (not those loaded).
  double AddedSeconds() const;

  std::string Save() const;
  // Adds what Save() gave, as what was measured before all that was added here; also what versions without
  // ages saved, as measured at the end of theirs. DATA_LOSS: it is not of that form; nothing is changed.
  absl::Status Load(const std::string& text);

  std::map<ProfileKey, ProfileEntry> Entries() const;

 private:
  struct Step {
    double step_time = 0;
    double sync_time = 0;
    // As ProfileEntry::measured.
    double time = 0;
  };
  // The last steps of one kind in one configuration, of this process.
  struct Recent {
    // A ring, from when it has kRecentSteps.
    std::vector<double> times;
    size_t next = 0;
    // Not judged yet.
    std::vector<Step> held;
  };
  struct Configuration {
    ProfileEntry entry;
    Recent optim;
    Recent accum;
  };

  // Takes the step's time note of; whether there are enough steps to judge by.
  static bool Note(Recent* recent, const Step& step);
  // Makes its sums those of `time`, if that is later.
  void Decay(ProfileEntry* entry, double time) const;
  // Add the steps held that are no outliers.
  void CountOptim(const Recent& recent, ProfileEntry* entry) const;
  void CountAccum(const Recent& recent, ProfileEntry* entry) const;
  std::map<ProfileKey, ProfileEntry> EntriesLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const double half_life_;
  mutable Mutex mutex_;
  std::map<ProfileKey, Configuration> configurations_ ABSL_GUARDED_BY(mutex_);
  // Seconds of training since the job's start; and since this object was made.
  double trained_seconds_ ABSL_GUARDED_BY(mutex_) = 0;
  double added_seconds_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_PROFILE_STEP_PROFILE_H_
