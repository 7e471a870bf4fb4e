#include "libs/elastic/profile/step_profile.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"

namespace adaptdl::elastic {
namespace {

// The upper one of the two in the middle, if there are two.
double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

absl::Time At(double trained_seconds) { return absl::UnixEpoch() + absl::Seconds(trained_seconds); }

// The entries, and the seconds of training when they were saved.
std::pair<std::map<ProfileKey, ProfileEntry>, double> Parse(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text);
  const bool has_ages = json.is_object();
  const double trained = has_ages ? json.at("trained_seconds").get<double>() : 0;
  std::map<ProfileKey, ProfileEntry> entries;
  for (const auto& row : has_ages ? json.at("rows") : json) {
    const ProfileKey key{row.at("num_nodes"), row.at("num_replicas"), row.at("local_batch_size"),
                         row.value("gpu_types", std::vector<std::string>())};
    entries[key] = {row.at("accum_step_time"), row.at("accum_count"), row.at("optim_step_time"),
                    row.at("optim_sync_time"), row.at("optim_count"), row.value("measured", trained)};
  }
  return {std::move(entries), trained};
}

}  // namespace

void StepProfile::AddOptimizerStep(const ProfileKey& key, double step_time, double sync_time) {
  MutexLock lock(&mutex_);
  added_seconds_ += step_time;
  trained_seconds_ += step_time;
  Configuration& configuration = configurations_[key];
  if (!Note(&configuration.optim, {step_time, sync_time, trained_seconds_})) return;
  CountOptim(configuration.optim, &configuration.entry);
  configuration.optim.held.clear();
}

void StepProfile::AddAccumulationStep(const ProfileKey& key, double step_time) {
  MutexLock lock(&mutex_);
  added_seconds_ += step_time;
  trained_seconds_ += step_time;
  Configuration& configuration = configurations_[key];
  if (!Note(&configuration.accum, {step_time, 0, trained_seconds_})) return;
  CountAccum(configuration.accum, &configuration.entry);
  configuration.accum.held.clear();
}

bool StepProfile::Note(Recent* recent, const Step& step) {
  if (recent->times.size() < kRecentSteps) {
    recent->times.push_back(step.step_time);
  } else {
    recent->times[recent->next] = step.step_time;
    recent->next = (recent->next + 1) % kRecentSteps;
  }
  recent->held.push_back(step);
  return recent->times.size() >= kFirstSteps;
}

void StepProfile::Decay(ProfileEntry* entry, double time) const {
  if (time <= entry->measured) return;
  const double rest = std::exp2((entry->measured - time) / half_life_);
  for (double ProfileEntry::*sum :
       {&ProfileEntry::accum_step_time, &ProfileEntry::accum_count, &ProfileEntry::optim_step_time,
        &ProfileEntry::optim_sync_time, &ProfileEntry::optim_count}) {
    entry->*sum *= rest;
  }
  entry->measured = time;
}

void StepProfile::CountOptim(const Recent& recent, ProfileEntry* entry) const {
  if (recent.held.empty()) return;
  const double limit = kOutlierFactor * Median(recent.times);
  for (const Step& step : recent.held) {
    if (step.step_time > limit) continue;
    Decay(entry, step.time);
    entry->optim_step_time += step.step_time;
    entry->optim_sync_time += step.sync_time;
    entry->optim_count += 1;
  }
}

void StepProfile::CountAccum(const Recent& recent, ProfileEntry* entry) const {
  if (recent.held.empty()) return;
  const double limit = kOutlierFactor * Median(recent.times);
  for (const Step& step : recent.held) {
    if (step.step_time > limit) continue;
    Decay(entry, step.time);
    entry->accum_step_time += step.step_time;
    entry->accum_count += 1;
  }
}

int StepProfile::MaxProfiledReplicas() const {
  int most = 0;
  for (const auto& [key, entry] : Entries()) {
    if (entry.optim_count > 0) most = std::max(most, key.num_replicas);
  }
  return most;
}

std::vector<std::vector<std::string>> StepProfile::GpuTypes() const {
  std::map<std::vector<std::string>, double> last;
  for (const auto& [key, entry] : Entries()) {
    if (entry.optim_count > 0) last[key.gpu_types] = std::max(last[key.gpu_types], entry.measured);
  }
  std::vector<std::vector<std::string>> types;
  for (const auto& [type, measured] : last) types.push_back(type);
  std::stable_sort(types.begin(), types.end(),
                   [&last](const auto& a, const auto& b) { return last.at(a) < last.at(b); });
  return types;
}

std::vector<goodput::Measurement> StepProfile::Measurements(const std::vector<std::string>& gpu_types) const {
  MutexLock lock(&mutex_);
  std::vector<goodput::Measurement> measurements;
  for (const auto& [key, entry] : EntriesLocked()) {
    if (key.gpu_types != gpu_types || !(entry.optim_count > 0)) continue;
    const double sync = std::min(entry.optim_sync_time, entry.optim_step_time);
    const double accum =
        (entry.accum_step_time + entry.optim_step_time - sync) / (entry.accum_count + entry.optim_count);
    const double optim = entry.optim_step_time / entry.optim_count;
    if (!(accum > 0) || !(optim > 0) || !std::isfinite(accum) || !std::isfinite(optim)) continue;
    measurements.push_back({.nodes = key.num_nodes,
                            .replicas = key.num_replicas,
                            .atomic_batch_size = key.local_batch_size,
                            .accum_time = accum,
                            .optim_time = optim,
                            .weight = goodput::RecencyWeight(At(entry.measured), At(trained_seconds_),
                                                             absl::Seconds(half_life_))});
  }
  return measurements;
}

double StepProfile::AddedSeconds() const {
  MutexLock lock(&mutex_);
  return added_seconds_;
}

std::string StepProfile::Save() const {
  MutexLock lock(&mutex_);
  nlohmann::json rows = nlohmann::json::array();
  for (const auto& [key, entry] : EntriesLocked()) {
    rows.push_back({{"num_nodes", key.num_nodes},
                    {"num_replicas", key.num_replicas},
                    {"local_batch_size", key.local_batch_size},
                    {"gpu_types", key.gpu_types},
                    {"accum_step_time", entry.accum_step_time},
                    {"accum_count", entry.accum_count},
                    {"optim_step_time", entry.optim_step_time},
                    {"optim_sync_time", entry.optim_sync_time},
                    {"optim_count", entry.optim_count},
                    {"measured", entry.measured}});
  }
  return nlohmann::json{{"trained_seconds", trained_seconds_}, {"rows", std::move(rows)}}.dump();
}

absl::Status StepProfile::Load(const std::string& text) {
  std::map<ProfileKey, ProfileEntry> loaded;
  double trained = 0;
  try {
    std::tie(loaded, trained) = Parse(text);
  } catch (const std::exception& error) {
    return absl::DataLossError(absl::StrCat("the saved step profile cannot be read: ", error.what()));
  }
  MutexLock lock(&mutex_);
  trained_seconds_ += trained;
  for (auto& [key, configuration] : configurations_) {
    configuration.entry.measured += trained;
    for (Step& step : configuration.optim.held) step.time += trained;
    for (Step& step : configuration.accum.held) step.time += trained;
  }
  for (auto& [key, entry] : loaded) {
    ProfileEntry& sum = configurations_[key].entry;
    Decay(&entry, sum.measured);
    sum.accum_step_time += entry.accum_step_time;
    sum.accum_count += entry.accum_count;
    sum.optim_step_time += entry.optim_step_time;
    sum.optim_sync_time += entry.optim_sync_time;
    sum.optim_count += entry.optim_count;
    sum.measured = entry.measured;
  }
  return absl::OkStatus();
}

std::map<ProfileKey, ProfileEntry> StepProfile::Entries() const {
  MutexLock lock(&mutex_);
  return EntriesLocked();
}

std::map<ProfileKey, ProfileEntry> StepProfile::EntriesLocked() const {
  std::map<ProfileKey, ProfileEntry> entries;
  for (const auto& [key, configuration] : configurations_) {
    ProfileEntry& entry = entries[key] = configuration.entry;
    CountOptim(configuration.optim, &entry);
    CountAccum(configuration.accum, &entry);
  }
  return entries;
}

}  // namespace adaptdl::elastic
