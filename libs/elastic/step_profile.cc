#include "libs/elastic/step_profile.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace adaptdl::elastic {

void StepProfile::AddOptimizerStep(const ProfileKey& key, double step_time, double sync_time) {
  MutexLock lock(&mutex_);
  ProfileEntry& entry = entries_[key];
  entry.optim_step_time += step_time;
  entry.optim_sync_time += sync_time;
  ++entry.optim_count;
  added_seconds_ += step_time;
}

void StepProfile::AddAccumulationStep(const ProfileKey& key, double step_time) {
  MutexLock lock(&mutex_);
  ProfileEntry& entry = entries_[key];
  entry.accum_step_time += step_time;
  ++entry.accum_count;
  added_seconds_ += step_time;
}

int StepProfile::MaxProfiledReplicas() const {
  MutexLock lock(&mutex_);
  int most = 0;
  for (const auto& [key, entry] : entries_) {
    if (entry.optim_count > 0) most = std::max(most, key.num_replicas);
  }
  return most;
}

std::vector<goodput::Measurement> StepProfile::Measurements() const {
  MutexLock lock(&mutex_);
  std::vector<goodput::Measurement> measurements;
  for (const auto& [key, entry] : entries_) {
    if (entry.optim_count == 0) continue;
    const double sync = std::min(entry.optim_sync_time, entry.optim_step_time);
    const double accum = (entry.accum_step_time + entry.optim_step_time - sync) /
                         static_cast<double>(entry.accum_count + entry.optim_count);
    const double optim = entry.optim_step_time / static_cast<double>(entry.optim_count);
    if (!(accum > 0) || !(optim > 0) || !std::isfinite(accum) || !std::isfinite(optim)) continue;
    measurements.push_back({.nodes = key.num_nodes,
                            .replicas = key.num_replicas,
                            .atomic_batch_size = key.local_batch_size,
                            .accum_time = accum,
                            .optim_time = optim});
  }
  return measurements;
}

double StepProfile::AddedSeconds() const {
  MutexLock lock(&mutex_);
  return added_seconds_;
}

std::string StepProfile::Save() const {
  nlohmann::json rows = nlohmann::json::array();
  for (const auto& [key, entry] : Entries()) {
    rows.push_back({{"num_nodes", key.num_nodes},
                    {"num_replicas", key.num_replicas},
                    {"local_batch_size", key.local_batch_size},
                    {"accum_step_time", entry.accum_step_time},
                    {"accum_count", entry.accum_count},
                    {"optim_step_time", entry.optim_step_time},
                    {"optim_sync_time", entry.optim_sync_time},
                    {"optim_count", entry.optim_count}});
  }
  return rows.dump();
}

absl::Status StepProfile::Load(const std::string& text) {
  std::map<ProfileKey, ProfileEntry> loaded;
  try {
    for (const auto& row : nlohmann::json::parse(text)) {
      const ProfileKey key{row.at("num_nodes"), row.at("num_replicas"), row.at("local_batch_size")};
      loaded[key] = {row.at("accum_step_time"), row.at("accum_count"), row.at("optim_step_time"),
                     row.at("optim_sync_time"), row.at("optim_count")};
    }
  } catch (const std::exception& error) {
    return absl::DataLossError(absl::StrCat("the saved step profile cannot be read: ", error.what()));
  }
  MutexLock lock(&mutex_);
  for (const auto& [key, entry] : loaded) {
    ProfileEntry& sum = entries_[key];
    sum.accum_step_time += entry.accum_step_time;
    sum.accum_count += entry.accum_count;
    sum.optim_step_time += entry.optim_step_time;
    sum.optim_sync_time += entry.optim_sync_time;
    sum.optim_count += entry.optim_count;
  }
  return absl::OkStatus();
}

std::map<ProfileKey, ProfileEntry> StepProfile::Entries() const {
  MutexLock lock(&mutex_);
  return entries_;
}

}  // namespace adaptdl::elastic
