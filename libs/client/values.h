// The protocol's messages as the library's values, and back. Thread-safe.

#ifndef ADAPTDL_LIBS_CLIENT_VALUES_H_
#define ADAPTDL_LIBS_CLIENT_VALUES_H_

#include "absl/status/statusor.h"
#include "adaptdl/client.h"
#include "adaptdl/v1/event.pb.h"
#include "adaptdl/v1/history_service.pb.h"
#include "adaptdl/v1/job.pb.h"
#include "adaptdl/v1/job_service.pb.h"

namespace adaptdl::client {

Job ToJob(const v1::Job& message);
Event ToEvent(const v1::Event& message);
HistoryPoint ToPoint(const v1::HistoryPoint& message);
LogLine ToLine(const v1::LogLine& message);

// kUnknown is JOB_PHASE_UNSPECIFIED.
v1::JobPhase FromPhase(Phase phase);
// INVALID_ARGUMENT: a number that the protocol can't say; all else is the supervisor's to check.
absl::StatusOr<v1::SubmitJobRequest> FromOrder(const JobOrder& order);

}  // namespace adaptdl::client

#endif  // ADAPTDL_LIBS_CLIENT_VALUES_H_
