// What a simulation comes to, as numbers and as text. Pure functions; thread-safe.

#ifndef ADAPTDL_SIMULATOR_REPORT_SUMMARY_H_
#define ADAPTDL_SIMULATOR_REPORT_SUMMARY_H_

#include <optional>
#include <string>
#include <vector>

#include "simulator/cluster.h"
#include "simulator/engine.h"
#include "simulator/report/cost.h"

namespace adaptdl::simulator {

// The p-th percentile, linear between two values. 0 of none. REQUIRES: 0 <= p <= 100.
double Percentile(std::vector<double> values, double p);

// All times are in seconds unless the name says otherwise.
struct Summary {
  std::string policy;
  // JCT: from submission to completion.
  double avg_jct_s = 0;
  double p50_jct_s = 0;
  double p99_jct_s = 0;
  // From the first submission to the last completion.
  double makespan_s = 0;
  // From submission to the first start.
  double avg_wait_s = 0;
  // Restarts included.
  double gpu_hours = 0;
  // GPU hours, by those that the cluster had over the makespan.
  double utilisation = 0;
  double restarts_per_job = 0;
  double worst_finish_time_fairness = 0;
  // Part of the jobs whose finish-time fairness is above 1.
  double unfair_fraction = 0;
  // Real time of one decision.
  double decision_ms_p50 = 0;
  double decision_ms_p95 = 0;
  double decision_ms_max = 0;
  int decisions = 0;
  // Of all nodes (see ClusterCost), where nodes come and go or have a price; the cost only with prices.
  std::optional<double> node_hours;
  std::optional<double> cost;
  // Where nodes may fail or be taken away: how often they did, and what failures cost the jobs.
  struct Losses {
    int node_failures = 0;
    int node_evictions = 0;
    double lost_work_s = 0;
  };
  std::optional<Losses> losses;
  // Of the whole program.
  double cpu_s = 0;
  // By job.
  std::vector<JobOutcome> jobs;
  std::vector<double> finish_time_fairness;
  // Of the watched job.
  std::vector<JobSample> watched;
  // Which GPUs each job had when, and how many there are at most; where that was asked for.
  struct Timeline {
    int gpus = 0;
    std::vector<std::string> gpu_types;
    std::vector<Segment> segments;
  };
  std::optional<Timeline> timeline;
};

// `fairness` is by job of the result.
Summary Summarise(const std::string& policy, const Cluster& cluster, const SimulationResult& result,
                  const std::vector<double>& fairness, double cpu_seconds);

// Adds what became of the nodes. `failures`: whether they may fail or be taken away. `prices`: null if there
// are none. If nodes came and went, the utilisation is that of the hours for which they were there.
void AddNodes(const Cluster& cluster, const SimulationResult& result, bool failures, const Prices* prices,
              Summary* summary);

// Adds the GPUs of each job over time.
void AddTimeline(const Cluster& cluster, const SimulationResult& result, Summary* summary);

// One JSON object; `jcts` by job name, `watched` and `timeline` only if there are any.
std::string ToJson(const Summary& summary);
// One line per job.
std::string ToCsv(const Summary& summary);
// For people: the whole, and by application.
std::string ToTable(const Summary& summary);

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_SIMULATOR_REPORT_SUMMARY_H_
