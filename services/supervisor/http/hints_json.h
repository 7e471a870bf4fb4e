// Scheduling hints as AdaptDL's Python package sends them, from JSON to the message that all jobs report.
// Pure functions; thread-safe.
//
//   {"initBatchSize": 128, "localBszBounds": [32, 512], "maxBatchSize": 1024, "maxProfiledReplicas": 2,
//    "gradientAccumulation": false, "globalBatchSize": null, "gradParams": {"norm": 0.5, "var": 2.0},
//    "perfParams": {"alpha_c": 0.1, "beta_c": 0.01, "alpha_n": ..., "gamma": 1.1}}

#ifndef ADAPTDL_SERVICES_SUPERVISOR_HTTP_HINTS_JSON_H_
#define ADAPTDL_SERVICES_SUPERVISOR_HTTP_HINTS_JSON_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "adaptdl/v1/hints.pb.h"

namespace adaptdl::supervisor {

// INVALID_ARGUMENT names the first field that is missing or has a wrong type, or where the text stops being
// JSON (NaN and Infinity, which Python writes, are none). A field that is null is absent; unknown fields are
// ignored. Whether the values are plausible is for ValidateHints() to say.
absl::StatusOr<v1::Hints> HintsFromJson(absl::string_view text);

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_HTTP_HINTS_JSON_H_
