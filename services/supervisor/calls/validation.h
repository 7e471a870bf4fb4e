// What users, nodes and replicas may say, apart from jobs (libs/jobspec): every field checked, and refused by
// name, with its value and the remedy. Pure functions; thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_CALLS_VALIDATION_H_
#define ADAPTDL_SERVICES_SUPERVISOR_CALLS_VALIDATION_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "adaptdl/v1/hints.pb.h"
#include "adaptdl/v1/node.pb.h"
#include "adaptdl/v1/quota_service.pb.h"
#include "adaptdl/v1/replica_service.pb.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"

namespace adaptdl::supervisor {

absl::Status ValidateRequestId(absl::string_view request_id);

// Every value finite, ordered and plausible, so that nobody who computes with them can stumble.
absl::Status ValidateHints(const v1::Hints& hints);

absl::Status ValidateProgress(const v1::TrainingProgress& progress);
absl::Status ValidateRescaleTimes(const v1::RescaleTimes& times);
absl::Status ValidateCheckpointResult(const v1::CheckpointResult& result);

absl::Status ValidateNode(const v1::Node& node);
absl::Status ValidateMachineUse(const v1::MachineUse& use);

absl::Status ValidateQuota(const v1::SetQuotaRequest& request);

// "host:port" with a port of 1 to 65535.
absl::Status ValidateAddress(absl::string_view field, absl::string_view address);

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_CALLS_VALIDATION_H_
