#include "services/supervisor/validation.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace adaptdl::supervisor {
namespace {

constexpr int kMaxNameLength = 63;
constexpr int kMaxPrefixLength = 57;
constexpr int kMaxLabels = 64;
constexpr int kMaxEntries = 1024;
constexpr int kMaxReplicas = 100'000;
constexpr int kMaxAllowedReplicas = 64;
constexpr int kLargestAllowedReplicas = 1 << 14;
constexpr int kMaxPriority = 1000;
constexpr int kMaxRestarts = 1000;
constexpr int kMaxPathLength = 4096;
constexpr int kMaxExtendedResources = 64;
constexpr size_t kMaxSpecBytes = 256 << 10;
// Far above any machine, and low enough that sums over a cluster can't overflow.
constexpr int64_t kMaxAmount = int64_t{1} << 50;
constexpr int kMaxGpus = 1 << 20;
constexpr int kMaxGpuTypes = 64;
constexpr int kMaxQuota = 1 << 20;
constexpr int64_t kMaxBatchSize = int64_t{1} << 40;
constexpr double kMaxSeconds = 1e9;

// A value as an error shows it: short, and without anything that a terminal could act on.
std::string Show(absl::string_view value) {
  constexpr size_t kLimit = 80;
  const std::string text = absl::CHexEscape(value.substr(0, kLimit));
  return absl::StrCat("\"", text, value.size() > kLimit ? "..." : "", "\"");
}

absl::Status Wrong(absl::string_view field, absl::string_view value, absl::string_view remedy) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", value, ": ", remedy));
}

absl::Status CheckRange(absl::string_view field, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return Wrong(field, absl::StrCat(value), absl::StrCat("give a number from ", low, " to ", high));
}

bool IsLowerAlnum(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

bool IsDnsText(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return IsLowerAlnum(c) || c == '-'; });
}

bool HasControl(absl::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 32 || c == 127; });
}

absl::Status CheckNoNul(absl::string_view field, absl::string_view value) {
  if (!absl::StrContains(value, '\0')) return absl::OkStatus();
  return Wrong(field, Show(value), "holds a NUL byte; remove it");
}

absl::Status ValidatePrefix(absl::string_view prefix) {
  const bool good =
      !prefix.empty() && prefix.size() <= kMaxPrefixLength && IsDnsText(prefix) && prefix[0] != '-';
  if (good) return absl::OkStatus();
  return Wrong("generate_name", Show(prefix),
               "give 1 to 57 lower-case letters, digits and \"-\", and begin with a letter or digit");
}

template <typename Map>
absl::Status ValidateLabels(const Map& labels) {
  if (labels.size() > kMaxLabels) {
    return Wrong("labels", absl::StrCat(labels.size(), " entries"), "give at most 64");
  }
  for (const auto& [key, value] : labels) {
    if (key.empty() || key.size() > kMaxNameLength || HasControl(key)) {
      return Wrong("labels", absl::StrCat("key ", Show(key)), "give 1 to 63 printable characters");
    }
    if (value.size() > kMaxNameLength || HasControl(value)) {
      return Wrong(absl::StrCat("labels[", key, "]"), Show(value), "give at most 63 printable characters");
    }
  }
  return absl::OkStatus();
}

absl::Status ValidateResources(absl::string_view field, const v1::Resources& resources) {
  absl::Status status = CheckRange(absl::StrCat(field, ".cpu_millis"), resources.cpu_millis(), 0, kMaxAmount);
  status.Update(CheckRange(absl::StrCat(field, ".memory_bytes"), resources.memory_bytes(), 0, kMaxAmount));
  status.Update(CheckRange(absl::StrCat(field, ".gpus"), resources.gpus(), 0, kMaxGpus));
  if (resources.extended_size() > kMaxExtendedResources) {
    status.Update(Wrong(absl::StrCat(field, ".extended"), absl::StrCat(resources.extended_size(), " entries"),
                        "give at most 64"));
  }
  for (const auto& [name, amount] : resources.extended()) {
    if (name.empty() || name.size() > 253 || HasControl(name)) {
      status.Update(
          Wrong(absl::StrCat(field, ".extended"), Show(name), "give a name of 1 to 253 characters"));
    }
    status.Update(
        CheckRange(absl::StrCat(field, ".extended[", absl::CHexEscape(name), "]"), amount, 0, kMaxAmount));
  }
  return status;
}

absl::Status ValidateCommand(const v1::ReplicaTemplate& replica) {
  if (replica.command().empty() || replica.command(0).empty()) {
    return Wrong("spec.template.command", "empty", "name the program that each replica runs");
  }
  if (replica.command_size() > kMaxEntries) {
    return Wrong("spec.template.command", absl::StrCat(replica.command_size(), " entries"),
                 "give at most 1024");
  }
  if (replica.args_size() > kMaxEntries) {
    return Wrong("spec.template.args", absl::StrCat(replica.args_size(), " entries"), "give at most 1024");
  }
  absl::Status status;
  for (const std::string& word : replica.command()) status.Update(CheckNoNul("spec.template.command", word));
  for (const std::string& word : replica.args()) status.Update(CheckNoNul("spec.template.args", word));
  return status;
}

absl::Status ValidateEnvironment(const v1::ReplicaTemplate& replica) {
  if (replica.env_size() > kMaxEntries) {
    return Wrong("spec.template.env", absl::StrCat(replica.env_size(), " entries"), "give at most 1024");
  }
  for (const v1::EnvironmentVariable& variable : replica.env()) {
    if (variable.name().empty() || absl::StrContains(variable.name(), '=') || HasControl(variable.name())) {
      return Wrong("spec.template.env", Show(variable.name()),
                   "give a name without \"=\" and control characters");
    }
    if (absl::StartsWith(variable.name(), "ADAPTDL_")) {
      return Wrong("spec.template.env", Show(variable.name()),
                   "names that start with ADAPTDL_ are set by the system; choose another one");
    }
    const absl::Status status =
        CheckNoNul(absl::StrCat("spec.template.env[", variable.name(), "]"), variable.value());
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status ValidateTemplate(const v1::ReplicaTemplate& replica) {
  absl::Status status = ValidateCommand(replica);
  status.Update(ValidateEnvironment(replica));
  status.Update(ValidateResources("spec.template.resources", replica.resources()));
  status.Update(CheckNoNul("spec.template.working_directory", replica.working_directory()));
  if (replica.working_directory().size() > kMaxPathLength) {
    status.Update(Wrong("spec.template.working_directory", Show(replica.working_directory()),
                        "give a path of at most 4096 characters"));
  }
  if (replica.image().size() > kMaxPathLength || HasControl(replica.image())) {
    status.Update(
        Wrong("spec.template.image", Show(replica.image()), "give at most 4096 printable characters"));
  }
  if (replica.has_termination_grace_period()) {
    const auto& grace = replica.termination_grace_period();
    const bool good = grace.seconds() >= 0 && grace.nanos() >= 0 && grace.nanos() <= 999'999'999 &&
                      (grace.seconds() < 3600 || (grace.seconds() == 3600 && grace.nanos() == 0));
    if (!good) {
      status.Update(Wrong("spec.template.termination_grace_period", absl::StrCat(grace.seconds(), " s"),
                          "give 0 s to 1 h"));
    }
  }
  return status;
}

absl::Status ValidateAllowedReplicas(const v1::JobSpec& spec) {
  const auto& allowed = spec.allowed_replicas();
  if (allowed.empty()) return absl::OkStatus();
  const std::string field = "spec.allowed_replicas";
  if (allowed.size() > kMaxAllowedReplicas) {
    return Wrong(field, absl::StrCat(allowed.size(), " entries"), "give at most 64");
  }
  int last = 0;
  for (const int count : allowed) {
    const absl::Status status = CheckRange(field, count, 1, kLargestAllowedReplicas);
    if (!status.ok()) return status;
    if (count <= last) {
      return Wrong(field, absl::StrCat(count, " after ", last), "list them in ascending order, each once");
    }
    last = count;
  }
  const int most = spec.max_replicas() > 0 ? spec.max_replicas() : kMaxReplicas;
  const auto first = std::lower_bound(allowed.begin(), allowed.end(), spec.min_replicas());
  if (first != allowed.end() && *first <= most) return absl::OkStatus();
  return Wrong(field, absl::StrJoin(allowed, ", "),
               "none lies between min_replicas and max_replicas, so that the job could never run; add one");
}

absl::Status ValidateSpec(const v1::JobSpec& spec) {
  const size_t bytes = spec.ByteSizeLong();
  if (bytes > kMaxSpecBytes) {
    return Wrong("spec", absl::StrCat(bytes, " bytes"), "make it at most 256 KiB; put large data into files");
  }
  absl::Status status = CheckRange("spec.min_replicas", spec.min_replicas(), 0, kMaxReplicas);
  status.Update(CheckRange("spec.max_replicas", spec.max_replicas(), 0, kMaxReplicas));
  if (spec.max_replicas() > 0 && spec.min_replicas() > spec.max_replicas()) {
    status.Update(
        Wrong("spec.min_replicas", absl::StrCat(spec.min_replicas()),
              absl::StrCat("is more than max_replicas, ", spec.max_replicas(), "; make it at most that")));
  }
  status.Update(ValidateAllowedReplicas(spec));
  status.Update(CheckRange("spec.priority", spec.priority(), -kMaxPriority, kMaxPriority));
  if (spec.has_max_restarts()) {
    status.Update(CheckRange("spec.max_restarts", spec.max_restarts(), 0, kMaxRestarts));
  }
  if (!v1::RescaleMode_IsValid(spec.rescale())) {
    status.Update(Wrong("spec.rescale", absl::StrCat(static_cast<int>(spec.rescale())),
                        "is not known to this version; use RESCALE_MODE_IN_PLACE or RESCALE_MODE_RESTART"));
  }
  status.Update(ValidateTemplate(spec.template_()));
  return status;
}

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

}  // namespace

absl::Status ValidateDnsLabel(absl::string_view field, absl::string_view value) {
  const bool good = !value.empty() && value.size() <= kMaxNameLength && IsDnsText(value) &&
                    value.front() != '-' && value.back() != '-';
  if (good) return absl::OkStatus();
  return Wrong(field, Show(value),
               "give 1 to 63 lower-case letters, digits and \"-\", with a letter or digit at both ends");
}

absl::Status ValidateRequestId(absl::string_view request_id) {
  if (!request_id.empty() && request_id.size() <= 128) return absl::OkStatus();
  return Wrong("request_id", Show(request_id),
               "give 1 to 128 characters that are new for every call, a UUID say");
}

absl::Status ValidateNewJob(const v1::Job& job, absl::string_view generate_name) {
  absl::Status status = ValidateDnsLabel("job.namespace", job.namespace_());
  if (!job.name().empty() && !generate_name.empty()) {
    status.Update(
        Wrong("generate_name", Show(generate_name), "job.name is set as well; give only one of them"));
  }
  status.Update(job.name().empty() && !generate_name.empty() ? ValidatePrefix(generate_name)
                                                             : ValidateDnsLabel("job.name", job.name()));
  status.Update(ValidateLabels(job.labels()));
  status.Update(ValidateSpec(job.spec()));
  return status;
}

absl::Status ValidateHints(const v1::Hints& hints) {
  absl::Status status = ValidateBatchSizes(hints);
  status.Update(CheckRange("hints.max_profiled_replicas", hints.max_profiled_replicas(), 0, kMaxReplicas));
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
  constexpr int64_t kMaxSeconds = 24 * 3600;
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
  status.Update(ValidateResources("node.capacity", node.capacity()));
  status.Update(ValidateLabels(node.labels()));
  if (node.gpu_type().size() > 253 || node.version().size() > 253) {
    status.Update(Wrong("node.gpu_type, node.version", "too long", "give at most 253 characters"));
  }
  return status;
}

absl::Status ValidateQuota(const v1::SetQuotaRequest& request) {
  absl::Status status = ValidateDnsLabel("namespace", request.namespace_());
  if (request.has_gpus()) status.Update(CheckRange("gpus", request.gpus(), 0, kMaxGpus));
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

void FillDefaults(v1::JobSpec* spec) {
  if (!spec->has_preemptible()) spec->set_preemptible(true);
  if (!spec->has_max_restarts()) spec->set_max_restarts(3);
  if (spec->rescale() == v1::RESCALE_MODE_UNSPECIFIED) spec->set_rescale(v1::RESCALE_MODE_IN_PLACE);
  v1::ReplicaTemplate* replica = spec->mutable_template_();
  if (!replica->has_termination_grace_period()) replica->mutable_termination_grace_period()->set_seconds(30);
  v1::Resources* resources = replica->mutable_resources();
  if (resources->cpu_millis() == 0 && resources->gpus() == 0) resources->set_cpu_millis(1000);
}

}  // namespace adaptdl::supervisor
