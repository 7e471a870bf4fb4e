// Hints as the status of an AdaptDLJob holds them (`train`), by the names that AdaptDL's Python package gives them:
//
//   {"initBatchSize": 128, "maxBatchSize": 1024, "localBszBounds": [32, 512], "maxProfiledReplicas": 2,
//    "gradientAccumulation": true, "gradParams": {"norm": 0.5, "var": 2.0},
//    "perfParams": {"alpha_c": 0.1, "beta_c": 0.01, "alpha_n": ..., "beta_n", "alpha_r", "beta_r", "gamma": 1.1},
//    "perfParamsByGpuType": {"a100": {...}}}
// One bound of the two may be null.
//
// Pure functions; thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_STORE_TRAIN_OBJECT_H_
#define ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_STORE_TRAIN_OBJECT_H_

#include "absl/status/statusor.h"
#include "adaptdl/v1/hints.pb.h"
#include "libs/kube/json/json.h"

namespace adaptdl::supervisor {

kube::Json TrainOf(const v1::Hints& hints);

// INVALID_ARGUMENT names the field that is not as TrainOf() would write it.
absl::StatusOr<v1::Hints> ReadTrain(const kube::Json& train);

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_STORE_TRAIN_OBJECT_H_
