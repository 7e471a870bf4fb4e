// What a job demands besides its replicas: when it is to be done, on which GPUs, and with which data. Thread-safe.

#ifndef ADAPTDL_LIBS_JOBFILE_DEMANDS_H_
#define ADAPTDL_LIBS_JOBFILE_DEMANDS_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "adaptdl/v1/job.pb.h"
#include "google/protobuf/timestamp.pb.h"
#include "libs/jobfile/checker.h"
#include "libs/jobfile/document.h"

namespace adaptdl::jobfile {

// "2026-12-01T08:00:00Z", "2026-12-01T09:00:00+01:00" (RFC 3339). INVALID_ARGUMENT: it is none; `field` stands before it.
absl::StatusOr<google::protobuf::Timestamp> ParseDeadline(absl::string_view field, absl::string_view text);

// Reads spec.deadline, spec.gpuTypes and spec.dataSets. The bounds are those of libs/jobspec.
void ReadDemands(const Node& spec, v1::JobSpec* out, Problems* problems);

}  // namespace adaptdl::jobfile

#endif  // ADAPTDL_LIBS_JOBFILE_DEMANDS_H_
