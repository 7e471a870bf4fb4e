#include "simulator/history/fitted_workload.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/goodput/optimize.h"

namespace adaptdl::simulator {
namespace {

// What a restart is taken to cost if no job has measured one, as the live allocator does.
constexpr double kUnmeasuredRestartSeconds = 10;
// The limits of the live allocator: what is beyond is no request that means something.
constexpr int kMostReplicas = 1 << 14;
constexpr int64_t kLargestAmount = int64_t{1} << 50;
// A job of more work than this would keep the replay going for hours. Ten years, in seconds.
constexpr double kLongestSolo = 10 * 365.0 * 24 * 3600;

int64_t MaxBatchSize(const RecordedJob& job) { return std::max(job.max_batch_size, job.init_batch_size); }
int64_t MinLocal(const RecordedJob& job) { return std::max<int64_t>(job.min_local, 1); }
int64_t MaxLocal(const RecordedJob& job) { return job.max_local > 0 ? job.max_local : MaxBatchSize(job); }

double Work(const RecordedJob& job) {
  return job.end == RecordedEnd::kNotYet ? job.steps_total : job.steps_done;
}

bool AsksForGpus(const RecordedJob& job) { return job.demand.request.count(scheduling::kGpu) > 0; }

// Hints and histories come from outside.
bool IsPlausible(const ReplicaDemand& demand) {
  const std::vector<int>& allowed = demand.allowed_replicas;
  const bool ascending =
      std::adjacent_find(allowed.begin(), allowed.end(), std::greater_equal<>()) == allowed.end();
  const bool amounts = std::all_of(demand.request.begin(), demand.request.end(), [](const auto& entry) {
    return entry.second > 0 && entry.second <= kLargestAmount;
  });
  const bool sizes = demand.min_replicas >= 1 && demand.min_replicas <= kMostReplicas &&
                     (demand.max_replicas == 0 || demand.max_replicas >= demand.min_replicas) &&
                     (allowed.empty() || (allowed.front() >= 1 && allowed.back() >= demand.min_replicas));
  return ascending && amounts && sizes && !demand.request.empty();
}

// How long one replica would take for all of it, by the model that is first in order.
double SoloSeconds(const RecordedJob& job) {
  const goodput::GoodputFunction goodput(job.perf.begin()->second,
                                         job.gradient.value_or(goodput::GradParams()), job.init_batch_size);
  const double rate = goodput.Evaluate({1, 1}, {MaxLocal(job), 0});
  return Work(job) * static_cast<double>(job.init_batch_size) / rate;
}

// Empty: it can be used.
std::string WhyUnusable(const RecordedJob& job) {
  const bool ended = job.end != RecordedEnd::kNotYet;
  const std::string when = ended ? "it ended before it had" : "it has not";
  if (job.perf.empty() || job.init_batch_size < 1) return absl::StrCat(when, " measured itself");
  if (!job.gradient && MaxBatchSize(job) > job.init_batch_size) {
    return absl::StrCat(when, " measured its gradients");
  }
  for (const auto& [type, perf] : job.perf) {
    if (absl::Status status = goodput::Validate(perf); !status.ok()) return std::string(status.message());
  }
  if (job.gradient) {
    if (absl::Status status = goodput::Validate(*job.gradient); !status.ok()) {
      return std::string(status.message());
    }
  }
  const goodput::BatchLimits limits{job.max_batch_size, job.min_local, job.max_local, job.accumulation};
  if (absl::Status status = goodput::Validate(limits, job.init_batch_size); !status.ok()) {
    return std::string(status.message());
  }
  if (!std::isfinite(Work(job)) || Work(job) <= 0) {
    return ended ? "it ended without telling its progress in scale-invariant steps"
                 : "it has not ended, and its program does not say how much work it has";
  }
  if (!IsPlausible(job.demand)) return "what it asks for makes no sense";
  if (!(SoloSeconds(job) <= kLongestSolo)) return "its work would take one replica more than ten years";
  if (job.completed && *job.completed <= job.submitted) return "it ended when it was submitted";
  return "";
}

// Samples per second of one GPU at the largest atomic batch size.
double SingleGpuThroughput(const RecordedJob& job, const goodput::PerfParams& perf) {
  const double local = static_cast<double>(MaxLocal(job));
  return local / goodput::AccumTime(perf, local);
}

class SpeedRatios {
 public:
  SpeedRatios(const History& history, const std::map<std::string, double>& speeds)
      : history_(history), speeds_(speeds) {}

  // Speed of one GPU of type `to` by that of one of type `from`. nullopt: unknown.
  std::optional<double> Ratio(const std::string& from, const std::string& to) const {
    if (from == to) return 1;
    if (speeds_.count(from) > 0 || speeds_.count(to) > 0) return Given(to) / Given(from);
    double logarithms = 0;
    int jobs = 0;
    for (const RecordedJob& job : history_.jobs) {
      const auto a = job.perf.find(from);
      const auto b = job.perf.find(to);
      if (a == job.perf.end() || b == job.perf.end() || !WhyUnusable(job).empty()) continue;
      logarithms += std::log(SingleGpuThroughput(job, b->second) / SingleGpuThroughput(job, a->second));
      ++jobs;
    }
    return jobs == 0 ? std::nullopt : std::optional<double>(std::exp(logarithms / jobs));
  }

 private:
  double Given(const std::string& type) const {
    const auto found = speeds_.find(type);
    return found == speeds_.end() ? 1 : found->second;
  }

  const History& history_;
  const std::map<std::string, double>& speeds_;
};

class Fitter {
 public:
  Fitter(const History& history, const std::vector<std::string>& gpu_types,
         const std::map<std::string, double>& speeds)
      : history_(history), gpu_types_(gpu_types), ratios_(history, speeds) {}

  FittedWorkload Run() {
    MeasureRestarts();
    std::vector<int> order(history_.jobs.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [this](int a, int b) {
      return history_.jobs[a].submitted < history_.jobs[b].submitted;
    });
    for (const int index : order) Add(index);
    for (const std::string& type : assumed_) {
      workload_.notes.push_back(
          absl::StrCat("no job has measured itself on ", type,
                       ": one GPU of it is taken to be as fast as those that were measured"));
    }
    return std::move(workload_);
  }

 private:
  void MeasureRestarts() {
    double sum = 0;
    int jobs = 0;
    for (const RecordedJob& job : history_.jobs) {
      if (!job.rescale_seconds) continue;
      sum += *job.rescale_seconds;
      ++jobs;
    }
    mean_restart_ = jobs == 0 ? kUnmeasuredRestartSeconds : sum / jobs;
  }

  void Add(int index) {
    const RecordedJob& job = history_.jobs[index];
    if (std::string reason = WhyUnusable(job); !reason.empty()) {
      workload_.left_out.push_back({job.name, std::move(reason)});
      return;
    }
    Application application{
        .name = job.name,
        .curve = TrainingCurve::Constant(job.gradient.value_or(goodput::GradParams()), job.init_batch_size,
                                         MaxBatchSize(job), Work(job))};
    for (const std::string& type : gpu_types_) {
      const std::optional<goodput::PerfParams> perf = PerfOn(job, type);
      if (!perf) {
        workload_.left_out.push_back({job.name, absl::StrCat("its model makes no sense on ", type)});
        return;
      }
      application.step_times.push_back(StepTimes::FromModel(*perf, MinLocal(job), MaxLocal(job)));
      application.min_local.push_back(MinLocal(job));
      application.max_local.push_back(MaxLocal(job));
    }
    application.accumulation = job.accumulation;
    application.restart_seconds = job.rescale_seconds.value_or(mean_restart_);
    application.max_replicas =
        job.demand.max_replicas > 0 ? job.demand.max_replicas : application.step_times[0].max_replicas();
    if (workload_.jobs.empty()) begin_ = job.submitted;
    WorkloadJob fitted{job.name, job.submitted - begin_,
                       std::make_shared<const Application>(std::move(application)),
                       std::max(1, job.demand.min_replicas), job.init_batch_size};
    fitted.demand = job.demand;
    workload_.jobs.push_back(std::move(fitted));
    workload_.recorded.push_back(index);
  }

  std::optional<goodput::PerfParams> PerfOn(const RecordedJob& job, const std::string& type) {
    if (const auto known = job.perf.find(type); known != job.perf.end()) return known->second;
    const auto& [known_type, known] = *job.perf.begin();
    // Processors are taken to be the same beside any GPU.
    if (!AsksForGpus(job)) return known;
    const std::optional<double> ratio = ratios_.Ratio(known_type, type);
    if (!ratio && type != kNoGpuType) assumed_.insert(type);
    const absl::StatusOr<goodput::PerfParams> scaled = goodput::ScaleToGpuType(known, ratio.value_or(1));
    return scaled.ok() ? std::optional<goodput::PerfParams>(*scaled) : std::nullopt;
  }

  const History& history_;
  const std::vector<std::string>& gpu_types_;
  const SpeedRatios ratios_;
  double mean_restart_ = kUnmeasuredRestartSeconds;
  double begin_ = 0;
  std::set<std::string> assumed_;
  FittedWorkload workload_;
};

}  // namespace

FittedWorkload FitWorkload(const History& history, const std::vector<std::string>& gpu_types,
                           const std::map<std::string, double>& speeds) {
  return Fitter(history, gpu_types, speeds).Run();
}

void LeaveOutWhatDoesNotFit(const Cluster& cluster, const std::string& what, FittedWorkload* workload) {
  FittedWorkload kept;
  kept.left_out = std::move(workload->left_out);
  kept.notes = std::move(workload->notes);
  for (size_t i = 0; i < workload->jobs.size(); ++i) {
    WorkloadJob& job = workload->jobs[i];
    int most = 0;
    for (int type = 0; type < static_cast<int>(cluster.gpu_types().size()); ++type) {
      most = std::max(most, cluster.TotalReplicas(type, job.demand.request));
    }
    if (most < job.demand.min_replicas) {
      kept.left_out.push_back({job.name, absl::StrCat("it needs ", job.demand.min_replicas, " replicas of ",
                                                      scheduling::Describe(job.demand.request), "; ", what,
                                                      " holds ", most, " on nodes of one type")});
      continue;
    }
    kept.jobs.push_back(std::move(job));
    kept.recorded.push_back(workload->recorded[i]);
  }
  if (!kept.jobs.empty()) {
    const double begin = kept.jobs.front().submitted;
    for (WorkloadJob& job : kept.jobs) job.submitted -= begin;
  }
  *workload = std::move(kept);
}

std::string NothingToReplay(const std::vector<LeftOut>& left_out) {
  constexpr size_t kNamed = 3;
  std::string text = "no job of the history can be replayed";
  if (left_out.empty()) return absl::StrCat(text, ": there is none");
  for (size_t i = 0; i < std::min(kNamed, left_out.size()); ++i) {
    absl::StrAppend(&text, i == 0 ? ": " : "; ", left_out[i].job, ": ", left_out[i].reason);
  }
  if (left_out.size() > kNamed) absl::StrAppend(&text, "; and ", left_out.size() - kNamed, " more");
  return text;
}

}  // namespace adaptdl::simulator
