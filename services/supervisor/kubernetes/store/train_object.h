// Hints as the status of an AdaptDLJob holds them (`train`), by the names that AdaptDL's Python package gives them:
//
//   {"initBatchSize": 128, "maxBatchSize": 1024, "localBszBounds": [32, 512], "maxProfiledReplicas": 2,
//    "gradientAccumulation": true, "gradParams": {"norm": 0.5, "var": 2.0},
//    "perfParams": {"alpha_c": 0.1, "beta_c": 0.01, "alpha_n": ..., "beta_n", "alpha_r", "beta_r", "gamma": 1.1},
//    "perfParamsByGpuType": [{"gpuType": "a100", "perfParams": {...}}]}
// One of the two bounds may be null.
//
// Pure functions; thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_STORE_TRAIN_OBJECT_H_
#define ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_STORE_TRAIN_OBJECT_H_

#include "adaptdl/v1/hints.pb.h"
#include "libs/kube/json/json.h"
#include "services/supervisor/kubernetes/store/fields.h"

namespace adaptdl::supervisor {

kube::Json TrainOf(const v1::Hints& hints);

// Whether the values are plausible is for ValidateHints() to say.
v1::Hints ReadTrain(FieldReader* fields);

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_STORE_TRAIN_OBJECT_H_
