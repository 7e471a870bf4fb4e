#include "python/engine/goodput.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/goodput/fit.h"
#include "libs/goodput/model.h"
#include "libs/goodput/optimize.h"

namespace {

using adaptdl::goodput::BatchConfig;
using adaptdl::goodput::GoodputFunction;
using adaptdl::goodput::GradParams;
using adaptdl::goodput::kLargestBatchSize;
using adaptdl::goodput::Measurement;
using adaptdl::goodput::PerfParams;
using adaptdl::goodput::Topology;

int Answer(const absl::Status& status, char* error, int64_t error_size) {
  if (status.ok()) return 0;
  if (error != nullptr && error_size > 0) {
    const absl::string_view text = status.message();
    const size_t size = std::min(text.size(), static_cast<size_t>(error_size - 1));
    memcpy(error, text.data(), size);
    error[size] = '\0';
  }
  return 1;
}

PerfParams Perf(const double* perf) {
  return {perf[0], perf[1], perf[2], perf[3], perf[4], perf[5], perf[6]};
}

absl::Status Refused(int64_t index, absl::string_view name, int64_t value, absl::string_view remedy) {
  return absl::InvalidArgumentError(absl::StrCat(name, "[", index, "] is ", value, ": ", remedy));
}

absl::StatusOr<GoodputFunction> Model(const adaptdl_goodput_model& model) {
  const PerfParams perf = Perf(model.perf);
  const GradParams grad = {model.grad[0], model.grad[1]};
  if (absl::Status status = Validate(perf); !status.ok()) return status;
  if (absl::Status status = Validate(grad); !status.ok()) return status;
  if (model.init_batch_size < 1 || model.init_batch_size > kLargestBatchSize) {
    return absl::InvalidArgumentError(absl::StrCat("init_batch_size is ", model.init_batch_size,
                                                   ": give at least 1, and no more than 2^40"));
  }
  return GoodputFunction(perf, grad, model.init_batch_size);
}

// The topology at `index`, within the model's bounds.
absl::StatusOr<Topology> TopologyAt(int64_t index, const int64_t* nodes, const int64_t* replicas) {
  if (nodes[index] < 1) return Refused(index, "num_nodes", nodes[index], "give at least 1");
  if (replicas[index] < nodes[index]) {
    return Refused(index, "num_replicas", replicas[index], "give at least one for each node");
  }
  if (replicas[index] > std::numeric_limits<int>::max()) {
    return Refused(index, "num_replicas", replicas[index], "give fewer than 2^31");
  }
  return Topology{static_cast<int>(nodes[index]), static_cast<int>(replicas[index])};
}

absl::StatusOr<BatchConfig> BatchAt(int64_t index, const int64_t* sizes, const int64_t* steps, int replicas) {
  if (sizes[index] < 1) return Refused(index, "atomic_bsz", sizes[index], "give at least 1");
  if (steps[index] < 0) return Refused(index, "accum_steps", steps[index], "give at least 0");
  const double total = static_cast<double>(sizes[index]) * replicas * (static_cast<double>(steps[index]) + 1);
  if (total > static_cast<double>(kLargestBatchSize)) {
    return Refused(index, "atomic_bsz", sizes[index], "the total is more than 2^40");
  }
  return BatchConfig{sizes[index], steps[index]};
}

absl::StatusOr<std::vector<Measurement>> Measurements(int64_t count, const int64_t* nodes,
                                                      const int64_t* replicas, const int64_t* sizes,
                                                      const double* accum_times, const double* optim_times) {
  std::vector<Measurement> measurements;
  measurements.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const absl::StatusOr<Topology> topology = TopologyAt(i, nodes, replicas);
    if (!topology.ok()) return topology.status();
    measurements.push_back({topology->nodes, topology->replicas, sizes[i], accum_times[i], optim_times[i]});
  }
  return measurements;
}

absl::Status Throughputs(const adaptdl_goodput_model& model, int64_t count, const int64_t* nodes,
                         const int64_t* replicas, const int64_t* sizes, const int64_t* steps,
                         double* throughputs) {
  const absl::StatusOr<GoodputFunction> goodput = Model(model);
  if (!goodput.ok()) return goodput.status();
  for (int64_t i = 0; i < count; ++i) {
    const absl::StatusOr<Topology> topology = TopologyAt(i, nodes, replicas);
    if (!topology.ok()) return topology.status();
    const absl::StatusOr<BatchConfig> batch = BatchAt(i, sizes, steps, topology->replicas);
    if (!batch.ok()) return batch.status();
    throughputs[i] = goodput->Throughput(*topology, *batch);
  }
  return absl::OkStatus();
}

absl::Status Efficiencies(const adaptdl_goodput_model& model, int64_t count, const double* batch_sizes,
                          double* efficiencies) {
  const absl::StatusOr<GoodputFunction> goodput = Model(model);
  if (!goodput.ok()) return goodput.status();
  for (int64_t i = 0; i < count; ++i) {
    if (!(batch_sizes[i] > 0) || !std::isfinite(batch_sizes[i])) {
      return absl::InvalidArgumentError(
          absl::StrCat("batch_size[", i, "] is ", batch_sizes[i], ": give a positive number"));
    }
    efficiencies[i] = goodput->Efficiency(batch_sizes[i]);
  }
  return absl::OkStatus();
}

absl::Status Times(const double* perf, int64_t count, const int64_t* nodes, const int64_t* replicas,
                   const double* sizes, double* accum_times, double* network_times, double* optim_times) {
  const PerfParams params = Perf(perf);
  if (absl::Status status = Validate(params); !status.ok()) return status;
  for (int64_t i = 0; i < count; ++i) {
    const absl::StatusOr<Topology> topology = TopologyAt(i, nodes, replicas);
    if (!topology.ok()) return topology.status();
    if (!(sizes[i] > 0) || !std::isfinite(sizes[i])) {
      return absl::InvalidArgumentError(
          absl::StrCat("atomic_bsz[", i, "] is ", sizes[i], ": give a positive number"));
    }
    accum_times[i] = AccumTime(params, sizes[i]);
    network_times[i] = NetworkTime(params, *topology);
    optim_times[i] = OptimTime(params, *topology, sizes[i]);
  }
  return absl::OkStatus();
}

absl::Status Optimize(const adaptdl_goodput_model& model, const adaptdl_goodput_limits& limits, int64_t count,
                      const int64_t* nodes, const int64_t* replicas, double* goodputs, int64_t* sizes,
                      int64_t* steps) {
  const absl::StatusOr<GoodputFunction> goodput = Model(model);
  if (!goodput.ok()) return goodput.status();
  const adaptdl::goodput::BatchLimits batch_limits = {.max_batch_size = limits.max_batch_size,
                                                      .min_local = limits.min_local,
                                                      .max_local = limits.max_local,
                                                      .accumulation = limits.accumulation != 0};
  if (absl::Status status = Validate(batch_limits, model.init_batch_size); !status.ok()) return status;
  for (int64_t i = 0; i < count; ++i) {
    const absl::StatusOr<Topology> topology = TopologyAt(i, nodes, replicas);
    if (!topology.ok()) return topology.status();
    const auto choice = adaptdl::goodput::OptimizeOnReferenceGrid(*goodput, *topology, batch_limits);
    goodputs[i] = choice.goodput;
    sizes[i] = choice.batch.atomic_batch_size;
    steps[i] = choice.batch.accumulation_steps;
  }
  return absl::OkStatus();
}

absl::Status Fit(absl::StatusOr<std::vector<Measurement>> measurements, double* perf) {
  if (!measurements.ok()) return measurements.status();
  const absl::StatusOr<PerfParams> fitted = adaptdl::goodput::FitPerfParams(*measurements);
  if (!fitted.ok()) return fitted.status();
  const double values[] = {fitted->alpha_c, fitted->beta_c, fitted->alpha_n, fitted->beta_n,
                           fitted->alpha_r, fitted->beta_r, fitted->gamma};
  std::copy(std::begin(values), std::end(values), perf);
  return absl::OkStatus();
}

absl::Status Loss(const double* perf, absl::StatusOr<std::vector<Measurement>> measurements, double* loss) {
  if (!measurements.ok()) return measurements.status();
  for (int i = 0; i < 7; ++i) {
    if (perf[i] > 0 && std::isfinite(perf[i])) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("parameter ", i, " is ", perf[i], ": the loss takes logarithms"));
  }
  for (const Measurement& measurement : *measurements) {
    if (measurement.accum_time > 0 && measurement.optim_time > 0 && measurement.atomic_batch_size > 0)
      continue;
    return absl::InvalidArgumentError("a measurement is not greater than 0: the loss takes logarithms");
  }
  *loss = adaptdl::goodput::FitLoss(Perf(perf), *measurements, nullptr);
  return absl::OkStatus();
}

}  // namespace

extern "C" {

int adaptdl_goodput_throughput(const adaptdl_goodput_model* model, int64_t count, const int64_t* nodes,
                               const int64_t* replicas, const int64_t* atomic_batch_sizes,
                               const int64_t* accumulation_steps, double* throughputs, char* error,
                               int64_t error_size) {
  return Answer(
      Throughputs(*model, count, nodes, replicas, atomic_batch_sizes, accumulation_steps, throughputs), error,
      error_size);
}

int adaptdl_goodput_efficiency(const adaptdl_goodput_model* model, int64_t count, const double* batch_sizes,
                               double* efficiencies, char* error, int64_t error_size) {
  return Answer(Efficiencies(*model, count, batch_sizes, efficiencies), error, error_size);
}

int adaptdl_goodput_times(const double* perf, int64_t count, const int64_t* nodes, const int64_t* replicas,
                          const double* atomic_batch_sizes, double* accum_times, double* network_times,
                          double* optim_times, char* error, int64_t error_size) {
  return Answer(
      Times(perf, count, nodes, replicas, atomic_batch_sizes, accum_times, network_times, optim_times), error,
      error_size);
}

int adaptdl_goodput_optimize(const adaptdl_goodput_model* model, const adaptdl_goodput_limits* limits,
                             int64_t count, const int64_t* nodes, const int64_t* replicas, double* goodputs,
                             int64_t* atomic_batch_sizes, int64_t* accumulation_steps, char* error,
                             int64_t error_size) {
  return Answer(
      Optimize(*model, *limits, count, nodes, replicas, goodputs, atomic_batch_sizes, accumulation_steps),
      error, error_size);
}

int adaptdl_goodput_fit(int64_t count, const int64_t* nodes, const int64_t* replicas,
                        const int64_t* atomic_batch_sizes, const double* accum_times,
                        const double* optim_times, double* perf, char* error, int64_t error_size) {
  return Answer(Fit(Measurements(count, nodes, replicas, atomic_batch_sizes, accum_times, optim_times), perf),
                error, error_size);
}

int adaptdl_goodput_loss(const double* perf, int64_t count, const int64_t* nodes, const int64_t* replicas,
                         const int64_t* atomic_batch_sizes, const double* accum_times,
                         const double* optim_times, double* loss, char* error, int64_t error_size) {
  return Answer(
      Loss(perf, Measurements(count, nodes, replicas, atomic_batch_sizes, accum_times, optim_times), loss),
      error, error_size);
}

}  // extern "C"
