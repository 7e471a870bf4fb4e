#include "services/supervisor/calls/validation.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libs/jobspec/checks.h"
#include "libs/jobspec/limits.h"
#include "libs/jobspec/placement.h"

namespace adaptdl::supervisor {
namespace {

constexpr int kMaxGpuTypes = 64;
using jobspec::CheckRange;
using jobspec::HasControl;
using jobspec::IsLowerAlnum;
using jobspec::Show;
using jobspec::Wrong;

constexpr int kMaxNodeProblems = 1024;
constexpr size_t kMaxNodeProblem = 1000;  // bytes
constexpr int kMaxQuota = 1 << 20;
constexpr int64_t kMaxBatchSize = int64_t{1} << 40;
constexpr double kMaxSeconds = 1e9;
// Of a machine's use.
constexpr double kMaxProcessors = 1 << 16;
constexpr int kMaxGpusInUse = 64;
constexpr int kMaxGpuIndex = 1023;
constexpr size_t kMaxGpuUuid = 96;  // bytes
constexpr double kMaxCelsius = 1000;
constexpr double kMaxWatts = 1e6;

absl::Status CheckFinite(absl::string_view field, double value, double low, double high) {
  if (std::isfinite(value) && value >= low && value <= high) return absl::OkStatus();
  return Wrong(field, absl::StrCat(value), absl::StrCat("give a finite number from ", low, " to ", high));
}

absl::Status ValidateBatchSizes(const v1::Hints& hints) {
  const int64_t init = hints.init_batch_size();
  absl::Status status = CheckRange("hints.init_batch_size", init, 1, kMaxBatchSize);
  if (!status.ok()) return status;
  const int64_t max = hints.has_max_batch_size() ? hints.max_batch_size() : init;
  const int64_t min_local = hints.has_min_local_batch_size() ? hints.min_local_batch_size() : 1;
  const int64_t max_local = hints.has_max_local_batch_size() ? hints.max_local_batch_size() : max;
  status.Update(CheckRange("hints.max_batch_size", max, init, kMaxBatchSize));
  // A lower bound above the user's own batch size leaves a single replica nothing that it could run with.
  status.Update(CheckRange("hints.min_local_batch_size", min_local, 1, init));
  status.Update(CheckRange("hints.max_local_batch_size", max_local, min_local, kMaxBatchSize));
  return status;
}

absl::Status ValidatePerfParams(absl::string_view name, const v1::PerfParams& params) {
  const auto check = [name](absl::string_view field, double value, double low, double high) {
    return CheckFinite(absl::StrCat(name, ".", field), value, low, high);
  };
  absl::Status status = check("alpha_c", params.alpha_c(), 0, kMaxSeconds);
  status.Update(check("beta_c", params.beta_c(), 0, kMaxSeconds));
  status.Update(check("alpha_n", params.alpha_n(), 0, kMaxSeconds));
  status.Update(check("beta_n", params.beta_n(), 0, kMaxSeconds));
  status.Update(check("alpha_r", params.alpha_r(), 0, kMaxSeconds));
  status.Update(check("beta_r", params.beta_r(), 0, kMaxSeconds));
  status.Update(check("gamma", params.gamma(), 1, 10));
  if (status.ok() && params.alpha_c() + params.beta_c() <= 0) {
    status = Wrong(absl::StrCat(name, ".beta_c"), "0",
                   "alpha_c and beta_c can't both be 0: a step takes some time; fit the model again");
  }
  return status;
}

absl::Status ValidateTypedPerfParams(const v1::Hints& hints) {
  absl::Status status =
      CheckRange("hints.perf_params_by_gpu_type", hints.perf_params_by_gpu_type_size(), 0, kMaxGpuTypes);
  std::set<absl::string_view> seen;
  for (const v1::GpuTypePerfParams& typed : hints.perf_params_by_gpu_type()) {
    const std::string& type = typed.gpu_type();
    if (type.empty() || type.size() > 253 || HasControl(type) || !seen.insert(type).second) {
      status.Update(Wrong("hints.perf_params_by_gpu_type.gpu_type", Show(type),
                          "give each type once, by 1 to 253 printable characters"));
    }
    status.Update(ValidatePerfParams("hints.perf_params_by_gpu_type.perf_params", typed.perf_params()));
  }
  return status;
}

bool IsMetricName(absl::string_view name) {
  constexpr size_t kLongest = 64;
  return !name.empty() && name.size() <= kLongest && absl::ascii_isalpha(name.front()) &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return absl::ascii_isalnum(c) || absl::StrContains("_./-", c); });
}

// Values may be anything: a loss that is no number any more is what its user wants to know of.
absl::Status ValidateMetrics(const v1::TrainingProgress& progress) {
  constexpr int kMostMetrics = 16;
  absl::Status status = CheckRange("progress.metrics", progress.metrics_size(), 0, kMostMetrics);
  if (!status.ok()) return status;
  std::set<absl::string_view> seen;
  for (const v1::ReportedMetric& metric : progress.metrics()) {
    if (!IsMetricName(metric.name()) || !seen.insert(metric.name()).second) {
      status.Update(
          Wrong("progress.metrics.name", Show(metric.name()),
                "give each name once, 1 to 64 letters, digits and any of \"_./-\", beginning with a "
                "letter"));
    }
    status.Update(CheckRange("progress.metrics.step", metric.step(), 0, std::numeric_limits<int64_t>::max()));
  }
  return status;
}

absl::Status ValidateGpuUse(const v1::GpuUse& gpu) {
  constexpr int64_t kMaxBytes = std::numeric_limits<int64_t>::max();
  absl::Status status = CheckRange("use.gpus.index", gpu.index(), 0, kMaxGpuIndex);
  if (gpu.uuid().size() > kMaxGpuUuid || HasControl(gpu.uuid())) {
    status.Update(Wrong("use.gpus.uuid", Show(gpu.uuid()), "give at most 96 characters that can be seen"));
  }
  status.Update(CheckFinite("use.gpus.utilization", gpu.utilization(), 0, 1));
  status.Update(CheckRange("use.gpus.memory_total_bytes", gpu.memory_total_bytes(), 0, kMaxBytes));
  status.Update(CheckRange("use.gpus.memory_bytes", gpu.memory_bytes(), 0, gpu.memory_total_bytes()));
  status.Update(CheckFinite("use.gpus.temperature_celsius", gpu.temperature_celsius(), -273.15, kMaxCelsius));
  status.Update(CheckFinite("use.gpus.power_watts", gpu.power_watts(), 0, kMaxWatts));
  return status;
}

}  // namespace

absl::Status ValidateRequestId(absl::string_view request_id) {
  if (!request_id.empty() && request_id.size() <= 128) return absl::OkStatus();
  return Wrong("request_id", Show(request_id),
               "give 1 to 128 characters that are new for every call, a UUID say");
}

absl::Status ValidateHints(const v1::Hints& hints) {
  absl::Status status = ValidateBatchSizes(hints);
  status.Update(
      CheckRange("hints.max_profiled_replicas", hints.max_profiled_replicas(), 0, jobspec::kMaxReplicas));
  if (hints.has_perf_params()) {
    status.Update(ValidatePerfParams("hints.perf_params", hints.perf_params()));
  }
  status.Update(ValidateTypedPerfParams(hints));
  if (hints.has_grad_params()) {
    constexpr double kMax = std::numeric_limits<double>::max();
    status.Update(CheckFinite("hints.grad_params.norm", hints.grad_params().norm(), 0, kMax));
    status.Update(CheckFinite("hints.grad_params.var", hints.grad_params().var(), 0, kMax));
  }
  return status;
}

absl::Status ValidateRescaleTimes(const v1::RescaleTimes& times) {
  // Nobody waits longer for a plan.
  constexpr int64_t kMaxSeconds = int64_t{24} * 3600;
  absl::Status status;
  status.Update(CheckRange("rescale.agree", times.agree().seconds(), 0, kMaxSeconds));
  status.Update(CheckRange("rescale.rebuild", times.rebuild().seconds(), 0, kMaxSeconds));
  status.Update(CheckRange("rescale.synchronize", times.synchronize().seconds(), 0, kMaxSeconds));
  status.Update(CheckRange("rescale.first_step", times.first_step().seconds(), 0, kMaxSeconds));
  return status;
}

absl::Status ValidateCheckpointResult(const v1::CheckpointResult& result) {
  constexpr size_t kMaxError = 1024;
  const absl::Status status =
      CheckRange("checkpoint.step", result.step(), 0, std::numeric_limits<int64_t>::max());
  if (!status.ok()) return status;
  if (result.error().size() <= kMaxError) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("checkpoint.error: ", result.error().size(), " bytes; give at most ", kMaxError));
}

absl::Status ValidateProgress(const v1::TrainingProgress& progress) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  constexpr double kMaxDouble = std::numeric_limits<double>::max();
  absl::Status status = CheckRange("progress.optimizer_steps", progress.optimizer_steps(), 0, kMax);
  status.Update(CheckRange("progress.epoch", progress.epoch(), 0, kMax));
  status.Update(CheckRange("progress.total_epochs", progress.total_epochs(), 0, kMax));
  status.Update(CheckRange("progress.total_batch_size", progress.total_batch_size(), 0, kMax));
  status.Update(CheckRange("progress.local_batch_size", progress.local_batch_size(), 0, kMax));
  status.Update(CheckRange("progress.accumulation_steps", progress.accumulation_steps(), 0, kMax));
  status.Update(CheckFinite("progress.fraction", progress.fraction(), -kMaxDouble, 1));
  status.Update(CheckFinite("progress.throughput", progress.throughput(), 0, kMaxDouble));
  status.Update(
      CheckFinite("progress.scale_invariant_steps", progress.scale_invariant_steps(), 0, kMaxDouble));
  status.Update(CheckFinite("progress.total_scale_invariant_steps", progress.total_scale_invariant_steps(), 0,
                            kMaxDouble));
  status.Update(CheckFinite("progress.gain", progress.gain(), 0, kMaxDouble));
  status.Update(CheckFinite("progress.efficiency", progress.efficiency(), 0, kMaxDouble));
  status.Update(CheckFinite("progress.gradient_noise_scale", progress.gradient_noise_scale(), 0, kMaxDouble));
  status.Update(CheckFinite("progress.learning_rate_factor", progress.learning_rate_factor(), 0, kMaxDouble));
  status.Update(CheckFinite("progress.step_times.compute", progress.step_times().compute(), 0, kMaxSeconds));
  status.Update(CheckFinite("progress.step_times.sync", progress.step_times().sync(), 0, kMaxSeconds));
  status.Update(CheckFinite("progress.step_times.data", progress.step_times().data(), 0, kMaxSeconds));
  status.Update(ValidateMetrics(progress));
  return status;
}

absl::Status ValidateNode(const v1::Node& node) {
  const std::string& id = node.node_id();
  const bool good_id =
      !id.empty() && id.size() <= 253 && IsLowerAlnum(id.front()) && IsLowerAlnum(id.back()) &&
      std::all_of(id.begin(), id.end(), [](char c) { return IsLowerAlnum(c) || c == '-' || c == '.'; });
  if (!good_id) {
    return Wrong(
        "node.node_id", Show(id),
        "give 1 to 253 lower-case letters, digits, \"-\" and \".\", with a letter or digit at both ends");
  }
  absl::Status status = ValidateAddress("node.worker_address", node.worker_address());
  if (node.replica_host().empty() || node.replica_host().size() > 253 || HasControl(node.replica_host())) {
    status.Update(Wrong("node.replica_host", Show(node.replica_host()), "give a host name or an IP address"));
  }
  status.Update(jobspec::CheckResources("node.capacity", node.capacity()));
  status.Update(jobspec::CheckLabels(node.labels()));
  status.Update(jobspec::CheckTaints("node.taints", node.taints()));
  if (node.gpu_type().size() > 253 || node.version().size() > 253) {
    status.Update(Wrong("node.gpu_type, node.version", "too long", "give at most 253 characters"));
  }
  if (node.instance_id().size() > 253 || HasControl(node.instance_id())) {
    status.Update(
        Wrong("node.instance_id", Show(node.instance_id()), "give at most 253 characters that can be seen"));
  }
  if (node.limits_missing().size() > kMaxNodeProblem) {
    status.Update(Wrong("node.limits_missing", "too long", "give at most 1000 bytes"));
  }
  status.Update(CheckRange("node.problems", node.problems_size(), 0, kMaxNodeProblems));
  for (const std::string& problem : node.problems()) {
    if (problem.size() <= kMaxNodeProblem) continue;
    status.Update(Wrong("node.problems", "too long", "give at most 1000 bytes each"));
  }
  return status;
}

absl::Status ValidateMachineUse(const v1::MachineUse& use) {
  constexpr int64_t kMaxBytes = std::numeric_limits<int64_t>::max();
  absl::Status status = CheckFinite("use.cpus", use.cpus(), 0, kMaxProcessors);
  status.Update(CheckRange("use.memory_total_bytes", use.memory_total_bytes(), 0, kMaxBytes));
  status.Update(CheckRange("use.memory_bytes", use.memory_bytes(), 0, use.memory_total_bytes()));
  status.Update(CheckRange("use.gpus", use.gpus_size(), 0, kMaxGpusInUse));
  if (!status.ok()) return status;
  for (const v1::GpuUse& gpu : use.gpus()) status.Update(ValidateGpuUse(gpu));
  return status;
}

absl::Status ValidateQuota(const v1::SetQuotaRequest& request) {
  absl::Status status = jobspec::CheckDnsLabel("namespace", request.namespace_());
  if (request.has_gpus()) status.Update(CheckRange("gpus", request.gpus(), 0, jobspec::kMaxGpus));
  if (request.has_weight()) status.Update(CheckFinite("weight", request.weight(), 1e-3, 1e3));
  if (request.has_jobs()) status.Update(CheckRange("jobs", request.jobs(), 0, kMaxQuota));
  if (request.has_submissions_per_minute()) {
    status.Update(CheckRange("submissions_per_minute", request.submissions_per_minute(), 0, kMaxQuota));
  }
  return status;
}

absl::Status ValidateAddress(absl::string_view field, absl::string_view address) {
  const size_t colon = address.rfind(':');
  int port = 0;
  const bool good = colon != absl::string_view::npos && colon > 0 && address.size() <= 300 &&
                    !HasControl(address) && absl::SimpleAtoi(address.substr(colon + 1), &port) && port > 0 &&
                    port < 65536;
  if (good) return absl::OkStatus();
  return Wrong(field, Show(address), "give \"host:port\" with a port of 1 to 65535");
}

}  // namespace adaptdl::supervisor
