#include "simulator/report/summary.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "simulator/report/cost.h"

namespace adaptdl::simulator {
namespace {

double Mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) {
    sum += value;
  }
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

template <typename Function>
std::vector<double> Map(const std::vector<JobOutcome>& jobs, const Function& function) {
  std::vector<double> values;
  for (const JobOutcome& job : jobs) {
    values.push_back(function(job));
  }
  return values;
}

std::vector<double> Jcts(const std::vector<JobOutcome>& jobs) {
  return Map(jobs, [](const JobOutcome& job) { return job.jct(); });
}

std::string TableLine(const std::string& label, const std::vector<JobOutcome>& jobs) {
  const std::vector<double> jcts = Jcts(jobs);
  const double gpu_seconds = Mean(Map(jobs, [](const JobOutcome& job) { return job.gpu_seconds; })) *
                             static_cast<double>(jobs.size());
  return absl::StrFormat("%-14s %6d %10.0f %10.0f %10.0f %10.1f %9.2f\n", label, jobs.size(), Mean(jcts),
                         Percentile(jcts, 50), Percentile(jcts, 99), gpu_seconds / kSecondsPerHour,
                         Mean(Map(jobs, [](const JobOutcome& job) { return double(job.restarts); })));
}

// By job, in order of submission; each stretch as start, end, GPUs and their type.
nlohmann::ordered_json TimelineJson(const std::vector<JobOutcome>& jobs, const Summary::Timeline& timeline) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const JobOutcome& job : jobs) {
    list.push_back({{"name", job.name},
                    {"application", job.application},
                    {"submitted_s", job.submitted},
                    {"completed_s", job.completed},
                    {"segments", nlohmann::ordered_json::array()}});
  }
  for (const Segment& segment : timeline.segments) {
    list[segment.job]["segments"].push_back({{"start_s", segment.start},
                                             {"end_s", segment.end},
                                             {"gpus", segment.gpus},
                                             {"gpu_type", timeline.gpu_types[segment.gpu_type]}});
  }
  return {{"gpus", timeline.gpus}, {"gpu_types", timeline.gpu_types}, {"jobs", list}};
}

}  // namespace

double Percentile(std::vector<double> values, double p) {
  if (values.empty()) {
    return 0;
  }
  std::sort(values.begin(), values.end());
  const double position = p / 100 * static_cast<double>(values.size() - 1);
  const size_t low = static_cast<size_t>(position);
  const size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (position - static_cast<double>(low)) * (values[high] - values[low]);
}

Summary Summarise(const std::string& policy, const Cluster& cluster, const SimulationResult& result,
                  const std::vector<double>& fairness, double cpu_seconds) {
  Summary summary;
  summary.policy = policy;
  summary.jobs = result.jobs;
  summary.watched = result.watched;
  summary.finish_time_fairness = fairness;
  summary.cpu_s = cpu_seconds;
  const std::vector<double> jcts = Jcts(result.jobs);
  summary.avg_jct_s = Mean(jcts);
  summary.p50_jct_s = Percentile(jcts, 50);
  summary.p99_jct_s = Percentile(jcts, 99);
  double first = result.jobs.front().submitted;
  double last = first;
  double gpu_seconds = 0;
  double restarts = 0;
  for (const JobOutcome& job : result.jobs) {
    first = std::min(first, job.submitted);
    last = std::max(last, job.completed);
    gpu_seconds += job.gpu_seconds;
    restarts += job.restarts;
  }
  summary.makespan_s = last - first;
  summary.avg_wait_s =
      Mean(Map(result.jobs, [](const JobOutcome& job) { return job.started - job.submitted; }));
  summary.gpu_hours = gpu_seconds / kSecondsPerHour;
  summary.utilisation = gpu_seconds / (summary.makespan_s * cluster.total_gpus());
  summary.restarts_per_job = restarts / static_cast<double>(result.jobs.size());
  summary.worst_finish_time_fairness = *std::max_element(fairness.begin(), fairness.end());
  summary.unfair_fraction =
      static_cast<double>(std::count_if(fairness.begin(), fairness.end(), [](double f) { return f > 1; })) /
      static_cast<double>(fairness.size());
  std::vector<double> decisions = result.decision_seconds;
  for (double& seconds : decisions) {
    seconds *= 1000;
  }
  summary.decisions = static_cast<int>(decisions.size());
  summary.decision_ms_p50 = Percentile(decisions, 50);
  summary.decision_ms_p95 = Percentile(decisions, 95);
  summary.decision_ms_max = Percentile(decisions, 100);
  return summary;
}

void AddNodes(const Cluster& cluster, const SimulationResult& result, bool failures, const Prices* prices,
              Summary* summary) {
  const ClusterCost total = MeasureCost(cluster, result, summary->makespan_s, prices);
  if (prices != nullptr) {
    summary->cost = total.cost;
  }
  if (prices != nullptr || !result.nodes.empty()) {
    summary->node_hours = total.node_hours;
  }
  if (!result.nodes.empty()) {
    summary->utilisation = summary->gpu_hours / total.gpu_hours;
  }
  if (failures) {
    summary->losses = {result.node_failures, result.node_evictions, 0};
    for (const JobOutcome& job : result.jobs) {
      summary->losses->lost_work_s += job.lost_seconds;
    }
  }
}

void AddTimeline(const Cluster& cluster, const SimulationResult& result, Summary* summary) {
  summary->timeline = {cluster.total_gpus(), cluster.gpu_types(), result.timeline};
}

std::string ToJson(const Summary& summary) {
  nlohmann::ordered_json jcts = nlohmann::ordered_json::object();
  for (const JobOutcome& job : summary.jobs) {
    jcts[job.name] = job.jct();
  }
  nlohmann::ordered_json json = {
      {"policy", summary.policy},
      {"jobs", summary.jobs.size()},
      {"avg_jct_s", summary.avg_jct_s},
      {"p50_jct_s", summary.p50_jct_s},
      {"p99_jct_s", summary.p99_jct_s},
      {"makespan_s", summary.makespan_s},
      {"avg_wait_s", summary.avg_wait_s},
      {"gpu_hours", summary.gpu_hours},
      {"utilisation", summary.utilisation},
      {"restarts_per_job", summary.restarts_per_job},
      {"worst_finish_time_fairness", summary.worst_finish_time_fairness},
      {"unfair_fraction", summary.unfair_fraction},
      {"decisions", summary.decisions},
      {"decision_ms",
       {{"p50", summary.decision_ms_p50},
        {"p95", summary.decision_ms_p95},
        {"max", summary.decision_ms_max}}},
      {"cpu_s", summary.cpu_s},
      {"jcts", jcts},
  };
  if (summary.node_hours) json["node_hours"] = *summary.node_hours;
  if (summary.cost) json["cost"] = *summary.cost;
  if (summary.losses) {
    json["node_failures"] = summary.losses->node_failures;
    json["node_evictions"] = summary.losses->node_evictions;
    json["lost_work_s"] = summary.losses->lost_work_s;
  }
  for (const JobSample& sample : summary.watched) {
    json["watched"].push_back({{"time_s", sample.time},
                               {"gpus", sample.gpus},
                               {"batch_size", sample.batch_size},
                               {"noise_scale", sample.noise_scale}});
  }
  if (summary.timeline) json["timeline"] = TimelineJson(summary.jobs, *summary.timeline);
  return json.dump(2) + "\n";
}

std::string ToCsv(const Summary& summary) {
  std::string csv =
      "name,application,submitted_s,started_s,completed_s,jct_s,gpu_hours,restarts,finish_time_fairness";
  const bool plain =
      std::any_of(summary.jobs.begin(), summary.jobs.end(), [](const JobOutcome& job) { return job.plain; });
  if (summary.losses) csv += ",failures,lost_work_s";
  if (plain) csv += ",plain";
  csv += "\n";
  for (size_t i = 0; i < summary.jobs.size(); ++i) {
    const JobOutcome& job = summary.jobs[i];
    absl::StrAppendFormat(&csv, "%s,%s,%.3f,%.3f,%.3f,%.3f,%.4f,%d,%.4f", job.name, job.application,
                          job.submitted, job.started, job.completed, job.jct(),
                          job.gpu_seconds / kSecondsPerHour, job.restarts, summary.finish_time_fairness[i]);
    if (summary.losses) absl::StrAppendFormat(&csv, ",%d,%.3f", job.failures, job.lost_seconds);
    if (plain) absl::StrAppendFormat(&csv, ",%d", job.plain ? 1 : 0);
    csv += "\n";
  }
  return csv;
}

std::string ToTable(const Summary& summary) {
  std::string table = absl::StrFormat("%-14s %6s %10s %10s %10s %10s %9s\n", "APPLICATION", "JOBS",
                                      "AVG JCT s", "P50 s", "P99 s", "GPU HOURS", "RESTARTS");
  std::map<std::string, std::vector<JobOutcome>> by_application;
  for (const JobOutcome& job : summary.jobs) {
    by_application[job.application].push_back(job);
  }
  for (const auto& [application, jobs] : by_application) {
    table += TableLine(application, jobs);
  }
  table += TableLine("all", summary.jobs);
  absl::StrAppendFormat(&table,
                        "\npolicy %s: makespan %.0f s, average wait %.0f s, utilisation %.1f %%\n"
                        "worst finish-time fairness %.2f, %.1f %% of the jobs above 1\n"
                        "%d decisions: p50 %.3f ms, p95 %.3f ms, max %.3f ms; %.2f s of CPU in all\n",
                        summary.policy, summary.makespan_s, summary.avg_wait_s, 100 * summary.utilisation,
                        summary.worst_finish_time_fairness, 100 * summary.unfair_fraction, summary.decisions,
                        summary.decision_ms_p50, summary.decision_ms_p95, summary.decision_ms_max,
                        summary.cpu_s);
  if (summary.losses) {
    absl::StrAppendFormat(&table, "%d node failures, %d nodes taken away; work of %.0f s lost\n",
                          summary.losses->node_failures, summary.losses->node_evictions,
                          summary.losses->lost_work_s);
  }
  if (summary.node_hours) absl::StrAppendFormat(&table, "%.1f node hours", *summary.node_hours);
  if (summary.cost) absl::StrAppendFormat(&table, ", cost %.2f USD", *summary.cost);
  if (summary.node_hours) table += "\n";
  return table;
}

}  // namespace adaptdl::simulator
