#include "cli/job_order.h"

#include <fnmatch.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "cli/format.h"
#include "google/protobuf/repeated_field.h"

namespace adaptdl::cli {
namespace {

// Of smaller figures first; none if it is not known.
using Figure = std::optional<double> (*)(const v1::Job& job, absl::Time now);

struct OrderKey {
  const char* name;
  Figure figure;
};

double Seconds(const google::protobuf::Timestamp& time) {
  return absl::ToDoubleSeconds(ToTime(time) - absl::UnixEpoch());
}

// The largest first, and what has none last.
std::optional<double> Most(double figure) {
  return figure > 0 ? std::optional<double>(-figure) : std::nullopt;
}

constexpr OrderKey kFigures[] = {
    {"submitted",
     [](const v1::Job& job, absl::Time) -> std::optional<double> {
       if (!job.status().has_submit_time()) return std::nullopt;
       return Seconds(job.status().submit_time());
     }},
    {"start",
     [](const v1::Job& job, absl::Time) -> std::optional<double> {
       if (!job.status().has_start_time()) return std::nullopt;
       return Seconds(job.status().start_time());
     }},
    {"runtime",
     [](const v1::Job& job, absl::Time now) -> std::optional<double> {
       const v1::JobStatus& status = job.status();
       if (!status.has_start_time()) return std::nullopt;
       const absl::Time end = status.has_completion_time() ? ToTime(status.completion_time()) : now;
       return Most(absl::ToDoubleSeconds(end - ToTime(status.start_time())));
     }},
    {"eta",
     [](const v1::Job& job, absl::Time) -> std::optional<double> {
       const v1::JobStatus& status = job.status();
       if (!status.has_estimated_completion_time() || status.has_completion_time()) return std::nullopt;
       return Seconds(status.estimated_completion_time());
     }},
    {"replicas", [](const v1::Job& job, absl::Time) { return Most(job.status().allocation_size()); }},
    {"restarts", [](const v1::Job& job, absl::Time) { return Most(job.status().restarts()); }},
    {"cost", [](const v1::Job& job, absl::Time) { return Most(job.status().cost()); }},
    {"progress",
     [](const v1::Job& job, absl::Time) {
       return Most(job.status().has_progress() ? job.status().progress().fraction() : 0);
     }},
    {"goodput", [](const v1::Job& job, absl::Time) { return Most(GoodputOf(job.status())); }},
    {"priority",
     [](const v1::Job& job, absl::Time) -> std::optional<double> { return -job.spec().priority(); }},
};

constexpr char kNameKey[] = "name";
constexpr char kPhaseKey[] = "phase";

}  // namespace

std::vector<std::string> SortKeys() {
  std::vector<std::string> keys;
  for (const OrderKey& key : kFigures) keys.push_back(key.name);
  keys.insert(keys.begin() + 1, {kNameKey, kPhaseKey});
  return keys;
}

void SortJobs(const std::string& key, bool reverse, absl::Time now, std::vector<const v1::Job*>* jobs) {
  const auto by = [&](auto value_of) {
    const auto less = [&](const v1::Job* a, const v1::Job* b) {
      const auto left = value_of(*a);
      const auto right = value_of(*b);
      if (!left.has_value() || !right.has_value()) return left.has_value() && !right.has_value();
      return reverse ? *right < *left : *left < *right;
    };
    std::stable_sort(jobs->begin(), jobs->end(), less);
  };
  if (key == kNameKey) {
    by([](const v1::Job& job) { return std::optional(std::pair(job.name(), job.namespace_())); });
  } else if (key == kPhaseKey) {
    by([](const v1::Job& job) { return std::optional(StatusText(job.status())); });
  }
  for (const OrderKey& figure : kFigures) {
    if (key == figure.name) by([&](const v1::Job& job) { return figure.figure(job, now); });
  }
}

void SortJobs(const std::string& key, bool reverse, absl::Time now, JobList* jobs) {
  std::vector<const v1::Job*> order;
  for (const v1::Job& job : *jobs) order.push_back(&job);
  SortJobs(key, reverse, now, &order);
  JobList sorted;
  for (const v1::Job* job : order) *sorted.Add() = *job;
  jobs->Swap(&sorted);
}

void KeepSince(absl::Time since, JobList* jobs) {
  const auto ended_before = [&](const v1::Job& job) {
    return job.status().has_completion_time() && ToTime(job.status().completion_time()) < since;
  };
  jobs->erase(std::remove_if(jobs->begin(), jobs->end(), ended_before), jobs->end());
}

void KeepNamed(const std::string& pattern, JobList* jobs) {
  const auto other = [&](const v1::Job& job) { return fnmatch(pattern.c_str(), job.name().c_str(), 0) != 0; };
  jobs->erase(std::remove_if(jobs->begin(), jobs->end(), other), jobs->end());
}

double GoodputOf(const v1::JobStatus& status) {
  return status.has_progress() ? status.progress().throughput() * status.progress().efficiency() : 0;
}

}  // namespace adaptdl::cli
