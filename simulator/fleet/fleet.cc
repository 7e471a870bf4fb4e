#include "simulator/fleet/fleet.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/base/clock.h"
#include "simulator/cluster.h"
#include "simulator/engine.h"
#include "simulator/fleet/model_kinds.h"
#include "simulator/random.h"
#include "simulator/report/cpu_time.h"
#include "simulator/schedulers/factory.h"

namespace adaptdl::simulator {
namespace {

constexpr int kMostClusters = 100'000;
constexpr int kTenantsPerCluster = 20;
// More than a thousand clusters of two thousand nodes take in four months.
constexpr double kMostJobs = 2e9;

absl::Status CheckFleet(const FleetOptions& options) {
  const auto bad = [](const auto&... text) { return absl::InvalidArgumentError(absl::StrCat(text...)); };
  if (options.clusters < 1 || options.clusters > kMostClusters) {
    return bad("--clusters is ", options.clusters, "; it must be in [1, ", kMostClusters, "]");
  }
  if (options.simulated > options.clusters) {
    return bad("--simulate is ", options.simulated, "; there are ", options.clusters, " clusters");
  }
  if (!(options.jobs_per_hour > 0) || !(options.duration > 0) ||
      options.jobs_per_hour * options.duration / 3600 > kMostJobs) {
    return bad("--jobs-per-hour is ", options.jobs_per_hour, " and --duration ", options.duration,
               " s; both must be greater than 0, and come to no more than ", kMostJobs, " jobs");
  }
  if (options.front.replicas < 1 || !(options.front.report_seconds > 0)) {
    return bad("--fronts and --report-period must be greater than 0");
  }
  if (options.tenants < 0 || options.threads < 1)
    return bad("--tenants must be at least 0, --threads at least 1");
  return absl::OkStatus();
}

double ReferenceGpus(const Cluster& cluster) {
  double gpus = 0;
  for (int type = 0; type < static_cast<int>(cluster.gpu_types().size()); ++type) {
    gpus += cluster.total_gpus(type) * GpuSpeed(cluster.gpu_types()[type]);
  }
  return gpus;
}

// Part of the GPUs that jobs held until then.
double Utilisation(const Cluster& cluster, const SimulationResult& result, double until) {
  double gpu_seconds = 0;
  for (const Segment& segment : result.timeline) {
    gpu_seconds += segment.gpus * std::max(std::min(segment.end, until) - segment.start, 0.0);
  }
  return gpu_seconds / (until * cluster.total_gpus());
}

class Fleet {
 public:
  Fleet(const FleetOptions& options, std::vector<Cluster> kinds)
      : options_(options), kinds_(std::move(kinds)) {}

  absl::StatusOr<FleetResult> Run() {
    ChooseSample();
    const double begin = CpuSeconds();
    RouteAll();
    const double routed = CpuSeconds();
    if (absl::Status status = SimulateSample(); !status.ok()) return status;
    result_.routing_cpu = routed - begin;
    result_.simulation_cpu = CpuSeconds() - routed;
    return std::move(result_);
  }

 private:
  const Cluster& KindOf(int cluster) const { return kinds_[cluster % kinds_.size()]; }

  void ChooseSample() {
    std::vector<int> order(options_.clusters);
    std::iota(order.begin(), order.end(), 0);
    const size_t wanted = options_.simulated < 0 ? order.size() : static_cast<size_t>(options_.simulated);
    RandomStream random(options_.seed);
    for (size_t i = 0; i < wanted; ++i) {
      const auto left = static_cast<double>(order.size() - i);
      std::swap(order[i], order[i + static_cast<size_t>(random.Uniform() * left)]);
    }
    order.resize(wanted);
    std::sort(order.begin(), order.end());
    slot_.assign(options_.clusters, -1);
    for (const int cluster : order) {
      slot_[cluster] = static_cast<int>(result_.full.size());
      result_.full.emplace_back().cluster = cluster;
    }
    submissions_.resize(wanted);
  }

  void RouteAll() {
    const int tenants = options_.tenants > 0 ? options_.tenants : kTenantsPerCluster * options_.clusters;
    SubmissionStream stream({options_.jobs_per_hour, tenants, options_.seed});
    std::vector<double> gpus;
    for (int cluster = 0; cluster < options_.clusters; ++cluster) {
      gpus.push_back(ReferenceGpus(KindOf(cluster)));
      result_.gpus += KindOf(cluster).total_gpus();
    }
    std::vector<double> parts;
    for (int tenant = 0; tenant < tenants; ++tenant) parts.push_back(stream.TenantPart(tenant));
    FrontOptions front_options = options_.front;
    front_options.seed = options_.seed;
    Front front(front_options, gpus, parts);
    for (Submission next = stream.Next(); next.time < options_.duration; next = stream.Next()) {
      const int slot = slot_[front.Route(next)];
      if (slot >= 0) submissions_[slot].push_back(next);
      ++result_.jobs;
    }
    front.Drain();
    for (const SharedCluster& cluster : front.clusters()) {
      result_.routed.push_back({cluster.done(), cluster.work() / (cluster.gpus() * options_.duration),
                                cluster.mean_jct(), cluster.most_unfinished()});
    }
  }

  absl::Status SimulateSample() {
    std::vector<absl::Status> statuses(result_.full.size());
    std::atomic<size_t> next = 0;
    const auto work = [&] {
      for (size_t slot = next++; slot < statuses.size(); slot = next++) statuses[slot] = SimulateOne(slot);
    };
    std::vector<std::thread> threads;
    for (int i = 1; i < options_.threads; ++i) threads.emplace_back(work);
    work();
    for (std::thread& thread : threads) thread.join();
    for (absl::Status& status : statuses) {
      if (!status.ok()) return std::move(status);
    }
    return absl::OkStatus();
  }

  absl::Status SimulateOne(size_t slot) {
    FullCluster& full = result_.full[slot];
    const Cluster& cluster = KindOf(full.cluster);
    const std::vector<Submission> submissions = std::move(submissions_[slot]);
    if (submissions.empty()) return absl::OkStatus();
    std::vector<WorkloadJob> workload;
    workload.reserve(submissions.size());
    for (const Submission& submission : submissions) {
      workload.push_back(MakeJob(submission, options_.seed, cluster.gpu_types()));
    }
    SimulationOptions simulation = options_.simulation;
    simulation.seed = options_.seed + static_cast<uint64_t>(full.cluster);
    absl::StatusOr<std::unique_ptr<Scheduler>> scheduler =
        MakeScheduler(options_.policy, {.seed = simulation.seed});
    if (!scheduler.ok()) return scheduler.status();
    const RealClock clock;
    const absl::StatusOr<SimulationResult> result =
        Simulate(cluster, workload, **scheduler, clock, simulation);
    if (!result.ok()) return result.status();
    Collect(cluster, *result, &full);
    return absl::OkStatus();
  }

  void Collect(const Cluster& cluster, const SimulationResult& result, FullCluster* full) const {
    for (const JobOutcome& job : result.jobs) {
      full->jcts.push_back(job.jct());
      full->waits.push_back(job.started - job.submitted);
      full->restarts += job.restarts;
      full->lost_seconds += job.lost_seconds;
    }
    full->utilisation = Utilisation(cluster, result, options_.duration);
    full->node_failures = result.node_failures;
    full->decisions = static_cast<int64_t>(result.decision_seconds.size());
    full->decision_seconds =
        std::accumulate(result.decision_seconds.begin(), result.decision_seconds.end(), 0.0);
  }

  const FleetOptions& options_;
  const std::vector<Cluster> kinds_;
  // By cluster: index in the sample; negative: not in it.
  std::vector<int> slot_;
  std::vector<std::vector<Submission>> submissions_;  // by cluster of the sample
  FleetResult result_;
};

}  // namespace

absl::StatusOr<FleetResult> SimulateFleet(const FleetOptions& options) {
  if (absl::Status status = CheckFleet(options); !status.ok()) return status;
  std::vector<Cluster> kinds;
  for (const std::string& text : options.kinds) {
    absl::StatusOr<Cluster> kind = Cluster::Parse(text);
    if (!kind.ok()) return kind.status();
    kinds.push_back(*std::move(kind));
  }
  if (kinds.empty()) return absl::InvalidArgumentError("--cluster: none given; write one like a100:2000x8");
  return Fleet(options, std::move(kinds)).Run();
}

}  // namespace adaptdl::simulator
