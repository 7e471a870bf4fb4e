// What autoscalers may say of their pools: every field checked, and refused by name, with its value and the remedy. Pure;
// thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_POOLS_REPORT_CHECKS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_POOLS_REPORT_CHECKS_H_

#include "absl/status/status.h"
#include "adaptdl/v1/node_pool_service.pb.h"

namespace adaptdl::supervisor {

// Bounds of one report.
inline constexpr int kMaxReportedPools = 64;
inline constexpr int kMaxReportedNodes = 10'000;
inline constexpr int kMaxReportedEvents = 1000;
// Bytes of a text for people: more of it is cut off.
inline constexpr int kMaxReportText = 2048;

// INVALID_ARGUMENT.
absl::Status CheckReport(const v1::ReportNodePoolsRequest& report);

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_POOLS_REPORT_CHECKS_H_
