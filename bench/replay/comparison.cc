#include "bench/replay/comparison.h"

#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "simulator/report/summary.h"

namespace adaptdl::replay {
namespace {

constexpr double kGoalOfJobs = 0.15;

}  // namespace

Comparison Compare(const LiveRun& live, const simulator::SimulationResult& simulated) {
  Comparison comparison;
  const size_t count = live.jobs.size();
  std::vector<double> deviations;
  double within = 0;
  double live_seconds = 0;
  double simulated_seconds = 0;
  double differences = 0;
  for (size_t i = 0; i < count; ++i) {
    const LiveJob& ran = live.jobs[i];
    const simulator::JobOutcome& played = simulated.jobs[i];
    comparison.live_jct += ran.jct() / static_cast<double>(count);
    comparison.simulated_jct += played.jct() / static_cast<double>(count);
    deviations.push_back(std::abs(played.jct() / ran.jct() - 1));
    if (deviations.back() <= kGoalOfJobs) ++within;
    live_seconds += ran.replica_seconds;
    simulated_seconds += played.gpu_seconds;
    differences += std::abs(played.gpu_seconds - ran.replica_seconds);
  }
  comparison.within_15_percent = within / static_cast<double>(count);
  comparison.median_deviation = simulator::Percentile(deviations, 50);
  comparison.replica_seconds_ratio = simulated_seconds / live_seconds;
  comparison.misplaced_part = differences / 2 / live_seconds;
  return comparison;
}

nlohmann::json ToJson(const LiveRun& live, const simulator::SimulationResult& simulated) {
  const Comparison comparison = Compare(live, simulated);
  nlohmann::json jobs = nlohmann::json::array();
  for (size_t i = 0; i < live.jobs.size(); ++i) {
    const LiveJob& ran = live.jobs[i];
    const simulator::JobOutcome& played = simulated.jobs[i];
    jobs.push_back({{"name", ran.name},
                    {"submitted_s", ran.submitted},
                    {"live",
                     {{"wait_s", ran.started - ran.submitted},
                      {"jct_s", ran.jct()},
                      {"replica_s", ran.replica_seconds},
                      {"restarts", ran.restarts},
                      {"rescales", ran.rescales}}},
                    {"simulated",
                     {{"wait_s", played.started - played.submitted},
                      {"jct_s", played.jct()},
                      {"replica_s", played.gpu_seconds},
                      {"changes", played.restarts}}}});
  }
  return {{"live_mean_jct_s", comparison.live_jct},
          {"simulated_mean_jct_s", comparison.simulated_jct},
          {"simulated_by_live", comparison.jct_ratio()},
          {"jobs_within_15_percent", comparison.within_15_percent},
          {"median_deviation", comparison.median_deviation},
          {"replica_seconds_ratio", comparison.replica_seconds_ratio},
          {"misplaced_part", comparison.misplaced_part},
          {"jobs", jobs}};
}

std::string ToTable(const Comparison& comparison) {
  return absl::StrCat(
      absl::StrFormat("mean JCT, live                     %9.0f s\n", comparison.live_jct),
      absl::StrFormat("mean JCT, simulated                %9.0f s\n", comparison.simulated_jct),
      absl::StrFormat("simulated by live                  %9.3f    goal: 0.95 to 1.05\n",
                      comparison.jct_ratio()),
      absl::StrFormat("jobs within 15 %%                   %9.1f %%  goal: 90 %%\n",
                      100 * comparison.within_15_percent),
      absl::StrFormat("median deviation of a job          %9.1f %%\n", 100 * comparison.median_deviation),
      absl::StrFormat("replica time, simulated by live    %9.3f\n", comparison.replica_seconds_ratio),
      absl::StrFormat("replica time given to other jobs   %9.1f %%\n", 100 * comparison.misplaced_part));
}

}  // namespace adaptdl::replay
