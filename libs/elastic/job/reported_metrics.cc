#include "libs/elastic/job/reported_metrics.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "libs/base/say.h"
#include "nlohmann/json.hpp"

namespace adaptdl::elastic {
namespace {

constexpr size_t kLongestName = 64;

}  // namespace

bool IsMetricName(absl::string_view name) {
  const auto fits = [](char c) {
    return absl::ascii_isalnum(c) || absl::string_view("_./-").find(c) != absl::string_view::npos;
  };
  return !name.empty() && name.size() <= kLongestName && absl::ascii_isalpha(name.front()) &&
         std::all_of(name.begin(), name.end(), fits);
}

void ReportedMetrics::Report(absl::string_view name, double value, int64_t step) {
  if (step < 0) step = steps_.load(std::memory_order_relaxed);
  MutexLock lock(&mutex_);
  ReportedMetric* const metric = Find(name);
  if (metric == nullptr) return;
  metric->value = value;
  metric->step = step;
}

ReportedMetric* ReportedMetrics::Find(absl::string_view name) {
  const auto known = std::find_if(metrics_.begin(), metrics_.end(),
                                  [&](const ReportedMetric& metric) { return metric.name == name; });
  if (known != metrics_.end()) return &*known;
  if (!IsMetricName(name)) {
    if (!std::exchange(told_of_name_, true)) {
      Say(Severity::kError, absl::StrCat("the metric \"", absl::CHexEscape(name.substr(0, kLongestName)),
                                         "\" is not reported: give a name of 1 to ", kLongestName,
                                         " letters, digits and any of \"_./-\" that begins with a letter"));
    }
    return nullptr;
  }
  if (metrics_.size() >= kMost) {
    if (!std::exchange(told_of_number_, true)) {
      Say(Severity::kError, absl::StrCat("the metric \"", name, "\" is not reported: ", kMost,
                                         " others are, and there can't be more"));
    }
    return nullptr;
  }
  metrics_.push_back({.name = std::string(name)});
  return &metrics_.back();
}

std::vector<ReportedMetric> ReportedMetrics::Latest() const {
  MutexLock lock(&mutex_);
  return metrics_;
}

// Values as texts: JSON has no infinity, and no number that is none.
void ReportedMetrics::Save(nlohmann::json* job) const {
  nlohmann::json saved = nlohmann::json::array();
  for (const ReportedMetric& metric : Latest()) {
    saved.push_back({metric.name, absl::StrFormat("%.17g", metric.value), metric.step});
  }
  (*job)["metrics"] = std::move(saved);
}

void ReportedMetrics::Load(const nlohmann::json& job) {
  std::vector<ReportedMetric> loaded;
  for (const nlohmann::json& row : job.value("metrics", nlohmann::json::array())) {
    const bool fits = row.is_array() && row.size() == 3 && row[0].is_string() && row[1].is_string() &&
                      row[2].is_number_integer();
    double value = 0;
    if (!fits || !IsMetricName(row[0].get<std::string>()) ||
        !absl::SimpleAtod(row[1].get<std::string>(), &value) || loaded.size() >= kMost) {
      continue;
    }
    loaded.push_back({row[0].get<std::string>(), value, std::max<int64_t>(row[2].get<int64_t>(), 0)});
  }
  MutexLock lock(&mutex_);
  metrics_ = std::move(loaded);
}

}  // namespace adaptdl::elastic
