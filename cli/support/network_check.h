// Measuring the network between nodes: which pairs, the jobs that measure one, and what is to be thought of what they say. Plain
// functions on values, thread-safe.

#ifndef ADAPTDL_CLI_SUPPORT_NETWORK_CHECK_H_
#define ADAPTDL_CLI_SUPPORT_NETWORK_CHECK_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "adaptdl/v1/job_service.pb.h"
#include "adaptdl/v1/node_service.pb.h"
#include "cli/output.h"
#include "cli/support/checkup.h"

namespace adaptdl::cli {

// The most pairs that are measured at a time: each takes seconds.
inline constexpr size_t kMostPairs = 16;

// Bytes go from the first to the second.
struct NodePair {
  v1::Node from;
  v1::Node to;
};

// How good, by all rounds.
struct NetworkQuality {
  double median_bytes_per_second = 0;
  double worst_bytes_per_second = 0;
  double median_round_trip_seconds = 0;
  double worst_round_trip_seconds = 0;
};

// Each node to the next one, and the last to the first: every node sends once and receives once. Nodes that take no replicas
// are left out, and of `chosen` ones, unless it is empty, only those are taken, in its order. FAILED_PRECONDITION: there
// are fewer than two; NOT_FOUND: one of the chosen is not there, or not ready.
absl::StatusOr<std::vector<NodePair>> PairsToMeasure(const v1::ListNodesResponse& nodes,
                                                     const std::vector<std::string>& chosen);

// A job that runs "adaptdl-netperf ARGUMENTS" on the node, with next to nothing of its resources.
v1::SubmitJobRequest NetperfJob(const std::string& name_space, const v1::Node& node,
                                const std::vector<std::string>& arguments, const std::string& token);

// The document that one of its lines is, or the error that it tells. NOT_FOUND: the line is no such thing.
absl::StatusOr<Json> ParseNetperfLine(absl::string_view line);
// The port that the one who serves tells; what the one who measures tells.
absl::StatusOr<int> PortFrom(const Json& answer);
absl::StatusOr<NetworkQuality> QualityFrom(const Json& answer);

// What to think of a pair. INVALID_ARGUMENT, DEADLINE_EXCEEDED and others: it could not be measured, but UNAVAILABLE is
// the network's own failure.
Check NetworkCheck(const NodePair& pair, const absl::StatusOr<NetworkQuality>& quality);
Json NetworkDocument(const NodePair& pair, const absl::StatusOr<NetworkQuality>& quality);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_SUPPORT_NETWORK_CHECK_H_
