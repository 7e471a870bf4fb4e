#include "services/supervisor/kubernetes/store/train_object.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "services/supervisor/kubernetes/store/fields.h"
#include "services/supervisor/kubernetes/store/put.h"

namespace adaptdl::supervisor {
namespace {

using kube::Json;

constexpr size_t kMaxGpuTypes = 64;

struct PerfField {
  const char* name;
  double (v1::PerfParams::*get)() const;
  void (v1::PerfParams::*set)(double);
};

constexpr std::array<PerfField, 7> kPerfFields = {
    {{"alpha_c", &v1::PerfParams::alpha_c, &v1::PerfParams::set_alpha_c},
     {"beta_c", &v1::PerfParams::beta_c, &v1::PerfParams::set_beta_c},
     {"alpha_n", &v1::PerfParams::alpha_n, &v1::PerfParams::set_alpha_n},
     {"beta_n", &v1::PerfParams::beta_n, &v1::PerfParams::set_beta_n},
     {"alpha_r", &v1::PerfParams::alpha_r, &v1::PerfParams::set_alpha_r},
     {"beta_r", &v1::PerfParams::beta_r, &v1::PerfParams::set_beta_r},
     {"gamma", &v1::PerfParams::gamma, &v1::PerfParams::set_gamma}}};

Json PerfObject(const v1::PerfParams& params) {
  Json object = Json::object();
  for (const PerfField& field : kPerfFields) object[field.name] = (params.*field.get)();
  return object;
}

void ReadPerf(FieldReader* fields, v1::PerfParams* params) {
  for (const PerfField& field : kPerfFields) (params->*field.set)(fields->Number(field.name));
}

Json BoundOf(bool present, int64_t bound) { return present ? Json(bound) : Json(); }

// [lower, upper], either of which may be null.
void ReadBounds(FieldReader* fields, v1::Hints* hints) {
  constexpr char kName[] = "localBszBounds";
  const Json* bounds = fields->Raw(kName);
  if (bounds == nullptr) return;
  if (!bounds->is_array() || bounds->size() != 2) return fields->Fail(kName, "is no pair");
  for (int i = 0; i < 2; ++i) {
    const Json& bound = (*bounds)[i];
    if (bound.is_null()) continue;
    absl::Status status;
    const Json wrapped = {{"bound", bound}};
    const int64_t value = FieldReader(wrapped, kName, &status).Integer("bound");
    if (!status.ok()) return fields->Fail(kName, "has an entry that is no whole number");
    i == 0 ? hints->set_min_local_batch_size(value) : hints->set_max_local_batch_size(value);
  }
}

void ReadGpuTypes(FieldReader* fields, v1::Hints* hints) {
  fields->Objects("perfParamsByGpuType", kMaxGpuTypes, [&](FieldReader* entry) {
    v1::GpuTypePerfParams* added = hints->add_perf_params_by_gpu_type();
    added->set_gpu_type(entry->Text("gpuType"));
    entry->Object("perfParams", [&](FieldReader* perf) { ReadPerf(perf, added->mutable_perf_params()); });
  });
}

}  // namespace

Json TrainOf(const v1::Hints& hints) {
  Json train = {{"initBatchSize", hints.init_batch_size()}};
  if (hints.has_max_batch_size()) train["maxBatchSize"] = hints.max_batch_size();
  if (hints.has_min_local_batch_size() || hints.has_max_local_batch_size()) {
    train["localBszBounds"] = {BoundOf(hints.has_min_local_batch_size(), hints.min_local_batch_size()),
                               BoundOf(hints.has_max_local_batch_size(), hints.max_local_batch_size())};
  }
  Put("gradientAccumulation", hints.gradient_accumulation(), &train);
  Put("maxProfiledReplicas", hints.max_profiled_replicas(), &train);
  if (hints.has_perf_params()) train["perfParams"] = PerfObject(hints.perf_params());
  if (hints.has_grad_params()) {
    train["gradParams"] = {{"norm", hints.grad_params().norm()}, {"var", hints.grad_params().var()}};
  }
  for (const v1::GpuTypePerfParams& known : hints.perf_params_by_gpu_type()) {
    train["perfParamsByGpuType"].push_back(
        {{"gpuType", known.gpu_type()}, {"perfParams", PerfObject(known.perf_params())}});
  }
  return train;
}

v1::Hints ReadTrain(FieldReader* fields) {
  v1::Hints hints;
  hints.set_init_batch_size(fields->Integer("initBatchSize"));
  if (fields->Has("maxBatchSize")) hints.set_max_batch_size(fields->Integer("maxBatchSize"));
  ReadBounds(fields, &hints);
  hints.set_gradient_accumulation(fields->Flag("gradientAccumulation"));
  hints.set_max_profiled_replicas(static_cast<int32_t>(fields->Integer("maxProfiledReplicas", 0, INT32_MAX)));
  fields->Object("perfParams", [&](FieldReader* perf) { ReadPerf(perf, hints.mutable_perf_params()); });
  fields->Object("gradParams", [&](FieldReader* grad) {
    hints.mutable_grad_params()->set_norm(grad->Number("norm"));
    hints.mutable_grad_params()->set_var(grad->Number("var"));
  });
  ReadGpuTypes(fields, &hints);
  return hints;
}

}  // namespace adaptdl::supervisor
