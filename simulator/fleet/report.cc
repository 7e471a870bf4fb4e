#include "simulator/fleet/report.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "simulator/report/cost.h"
#include "simulator/report/summary.h"

namespace adaptdl::simulator {
namespace {

double MeanOf(const std::vector<double>& values) {
  return values.empty()
             ? 0
             : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

template <typename Clusters, typename Function>
std::vector<double> ByCluster(const Clusters& clusters, const Function& function) {
  std::vector<double> values;
  for (const auto& cluster : clusters) values.push_back(static_cast<double>(function(cluster)));
  return values;
}

std::vector<double> Together(const std::vector<FullCluster>& clusters,
                             std::vector<double> FullCluster::*values) {
  std::vector<double> all;
  for (const FullCluster& cluster : clusters) {
    all.insert(all.end(), (cluster.*values).begin(), (cluster.*values).end());
  }
  return all;
}

double Largest(const std::vector<double>& values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

// What all clusters were given, by the front's model of them.
struct RoutedTotals {
  explicit RoutedTotals(const FleetResult& result) {
    const std::vector<double> loads =
        ByCluster(result.routed, [](const RoutedCluster& cluster) { return cluster.load; });
    mean_load = MeanOf(loads);
    p99_load = Percentile(loads, 99);
    most_load = Largest(loads);
    const std::vector<double> jcts =
        ByCluster(result.routed, [](const RoutedCluster& it) { return it.mean_jct; });
    worst_jct = Largest(jcts);
    for (const RoutedCluster& cluster : result.routed) {
      jct += cluster.mean_jct * static_cast<double>(cluster.jobs) / static_cast<double>(result.jobs);
      most_unfinished = std::max(most_unfinished, cluster.most_unfinished);
    }
  }

  double mean_load = 0;
  double p99_load = 0;
  double most_load = 0;
  double jct = 0;
  double worst_jct = 0;
  int most_unfinished = 0;
};

// What became of the jobs of the clusters that were simulated in full.
struct FullTotals {
  explicit FullTotals(const std::vector<FullCluster>& clusters)
      : jcts(Together(clusters, &FullCluster::jcts)), waits(Together(clusters, &FullCluster::waits)) {
    utilisation = MeanOf(ByCluster(clusters, [](const FullCluster& cluster) { return cluster.utilisation; }));
    for (const FullCluster& cluster : clusters) {
      restarts += static_cast<double>(cluster.restarts);
      failures += cluster.node_failures;
      lost_hours += cluster.lost_seconds / kSecondsPerHour;
      decisions += cluster.decisions;
      decision_seconds += cluster.decision_seconds;
    }
  }

  double jobs() const { return static_cast<double>(jcts.size()); }
  double restarts_per_job() const { return restarts / std::max(jobs(), 1.0); }
  double decision_ms() const {
    return 1000 * decision_seconds / static_cast<double>(std::max<int64_t>(decisions, 1));
  }

  const std::vector<double> jcts;
  const std::vector<double> waits;
  double utilisation = 0;
  double restarts = 0;
  int failures = 0;
  double lost_hours = 0;
  int64_t decisions = 0;
  double decision_seconds = 0;
};

double PerSecond(double jobs, double seconds) { return seconds > 0 ? jobs / seconds : 0; }

}  // namespace

std::string ToJson(const FleetResult& result) {
  const RoutedTotals routed(result);
  const FullTotals full(result.full);
  nlohmann::ordered_json json = {
      {"clusters", result.routed.size()},
      {"gpus", result.gpus},
      {"jobs", result.jobs},
      {"routed",
       {{"load", routed.mean_load},
        {"p99_load", routed.p99_load},
        {"most_load", routed.most_load},
        {"avg_jct_s", routed.jct},
        {"worst_avg_jct_s", routed.worst_jct},
        {"most_unfinished", routed.most_unfinished},
        {"cpu_s", result.routing_cpu},
        {"jobs_per_cpu_s", PerSecond(static_cast<double>(result.jobs), result.routing_cpu)}}},
      {"full",
       {{"clusters", result.full.size()},
        {"jobs", full.jcts.size()},
        {"avg_jct_s", MeanOf(full.jcts)},
        {"p50_jct_s", Percentile(full.jcts, 50)},
        {"p99_jct_s", Percentile(full.jcts, 99)},
        {"avg_wait_s", MeanOf(full.waits)},
        {"p99_wait_s", Percentile(full.waits, 99)},
        {"utilisation", full.utilisation},
        {"restarts_per_job", full.restarts_per_job()},
        {"node_failures", full.failures},
        {"lost_work_h", full.lost_hours},
        {"decisions", full.decisions},
        {"decision_ms", full.decision_ms()},
        {"cpu_s", result.simulation_cpu},
        {"jobs_per_cpu_s", PerSecond(full.jobs(), result.simulation_cpu)}}},
  };
  for (const FullCluster& cluster : result.full) {
    json["by_cluster"].push_back({{"cluster", cluster.cluster},
                                  {"jobs", cluster.jcts.size()},
                                  {"load", result.routed[cluster.cluster].load},
                                  {"avg_jct_s", MeanOf(cluster.jcts)},
                                  {"p99_jct_s", Percentile(cluster.jcts, 99)},
                                  {"avg_wait_s", MeanOf(cluster.waits)},
                                  {"utilisation", cluster.utilisation}});
  }
  return json.dump(2) + "\n";
}

std::string ToTable(const FleetResult& result) {
  const RoutedTotals routed(result);
  const FullTotals full(result.full);
  std::string table = absl::StrFormat("%-8s %8s %6s %10s %10s %10s %6s\n", "CLUSTER", "JOBS", "LOAD",
                                      "AVG JCT s", "P99 JCT s", "AVG WAIT s", "USED");
  for (const FullCluster& cluster : result.full) {
    absl::StrAppendFormat(&table, "%-8d %8d %6.2f %10.0f %10.0f %10.1f %4.0f %%\n", cluster.cluster,
                          cluster.jcts.size(), result.routed[cluster.cluster].load, MeanOf(cluster.jcts),
                          Percentile(cluster.jcts, 99), MeanOf(cluster.waits), 100 * cluster.utilisation);
  }
  absl::StrAppendFormat(&table,
                        "\n%d jobs on %d clusters with %d GPUs; %d clusters simulated in full, the others "
                        "shared by their jobs\n",
                        result.jobs, result.routed.size(), result.gpus, result.full.size());
  absl::StrAppendFormat(&table,
                        "load: mean %.2f, p99 %.2f, most %.2f; at most %d unfinished jobs on a cluster\n",
                        routed.mean_load, routed.p99_load, routed.most_load, routed.most_unfinished);
  absl::StrAppendFormat(&table, "shared: average JCT %.0f s, of the worst cluster %.0f s\n", routed.jct,
                        routed.worst_jct);
  if (!full.jcts.empty()) {
    absl::StrAppendFormat(&table,
                          "in full: average JCT %.0f s, p50 %.0f s, p99 %.0f s; wait %.1f s; %.0f %% used; "
                          "%.1f restarts per job\n",
                          MeanOf(full.jcts), Percentile(full.jcts, 50), Percentile(full.jcts, 99),
                          MeanOf(full.waits), 100 * full.utilisation, full.restarts_per_job());
    if (full.failures > 0) {
      absl::StrAppendFormat(&table, "%d node failures; work of %.0f h lost\n", full.failures,
                            full.lost_hours);
    }
    absl::StrAppendFormat(&table, "%d decisions of %.1f ms; %.0f s of CPU, %.0f jobs in a second\n",
                          full.decisions, full.decision_ms(), result.simulation_cpu,
                          PerSecond(full.jobs(), result.simulation_cpu));
  }
  absl::StrAppendFormat(&table, "routed in %.1f s of CPU\n", result.routing_cpu);
  return table;
}

}  // namespace adaptdl::simulator
