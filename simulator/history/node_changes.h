// Changes of a cluster's nodes, as users write them: "4xA100x8" is four nodes with eight A100 each.
//
// Pure functions; thread-safe.

#ifndef ADAPTDL_SIMULATOR_HISTORY_NODE_CHANGES_H_
#define ADAPTDL_SIMULATOR_HISTORY_NODE_CHANGES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "simulator/history/history.h"

namespace adaptdl::simulator {

// CPU is counted in thousandths of a core.
inline constexpr int64_t kMillisPerCore = 1000;

// The type among those of the nodes that is called so or, if there is one only, has this in its name in any
// case of letters; else the text itself.
absl::StatusOr<std::string> FindGpuType(const std::vector<RecordedNode>& nodes, const std::string& text);

// INVALID_ARGUMENT: no such text, or too many nodes.
absl::Status AddNodes(const std::string& text, std::vector<RecordedNode>* nodes);
// `text` may also be the id of a node. INVALID_ARGUMENT: no such text, or fewer nodes of that kind.
absl::Status RemoveNodes(const std::string& text, std::vector<RecordedNode>* nodes);

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_SIMULATOR_HISTORY_NODE_CHANGES_H_
