// What users and replicas may ask for: every field checked, and refused by name, with its value and the
// remedy. Pure functions; thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_VALIDATION_H_
#define ADAPTDL_SERVICES_SUPERVISOR_VALIDATION_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "adaptdl/v1/hints.pb.h"
#include "adaptdl/v1/job.pb.h"
#include "adaptdl/v1/node.pb.h"
#include "adaptdl/v1/quota_service.pb.h"
#include "adaptdl/v1/replica_service.pb.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"

namespace adaptdl::supervisor {

// A DNS label: 1 to 63 lower-case letters, digits and "-", with a letter or digit at both ends.
absl::Status ValidateDnsLabel(absl::string_view field, absl::string_view value);

absl::Status ValidateRequestId(absl::string_view request_id);

// job.namespace, job.labels and job.spec, and job.name unless it is to be generated from `generate_name`.
absl::Status ValidateNewJob(const v1::Job& job, absl::string_view generate_name);

// Every value finite, ordered and plausible, so that nobody who computes with them can stumble.
absl::Status ValidateHints(const v1::Hints& hints);

absl::Status ValidateProgress(const v1::TrainingProgress& progress);
absl::Status ValidateRescaleTimes(const v1::RescaleTimes& times);
absl::Status ValidateCheckpointResult(const v1::CheckpointResult& result);

absl::Status ValidateNode(const v1::Node& node);

absl::Status ValidateQuota(const v1::SetQuotaRequest& request);

// "host:port" with a port of 1 to 65535.
absl::Status ValidateAddress(absl::string_view field, absl::string_view address);

// Fills in the documented defaults of a valid spec.
void FillDefaults(v1::JobSpec* spec);

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_VALIDATION_H_
