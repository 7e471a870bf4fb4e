#include "simulator/history/node_changes.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace adaptdl::simulator {
namespace {

constexpr int kMostAddedNodes = 10'000;
constexpr int kMostPerNode = 1024;
// Of what a new node offers and nobody has said how much: enough for any job.
constexpr int64_t kEnough = int64_t{1} << 50;

// Equal nodes.
struct Kind {
  int nodes = 0;
  std::string type;
  // GPUs, or cores of nodes without any.
  int64_t size = 0;
};

// "<nodes>x<type>x<size>"; the type may hold further x.
absl::StatusOr<Kind> ParseKind(const std::string& text) {
  const size_t first = text.find('x');
  const size_t last = text.rfind('x');
  Kind kind;
  if (first == std::string::npos || last <= first + 1 ||
      !absl::SimpleAtoi(text.substr(0, first), &kind.nodes) ||
      !absl::SimpleAtoi(text.substr(last + 1), &kind.size) || kind.nodes < 1 ||
      kind.nodes > kMostAddedNodes || kind.size < 1 || kind.size > kMostPerNode) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", text, "\" is no group of nodes; write <nodes>x<GPU type>x<GPUs per node>, as in 4xA100x8, or ",
        "<nodes>x", kNoGpuType, "x<cores per node>"));
  }
  kind.type = text.substr(first + 1, last - first - 1);
  return kind;
}

const char* CountedResource(const std::string& type) {
  return type == kNoGpuType ? scheduling::kCpu : scheduling::kGpu;
}

int64_t AmountOf(const Kind& kind) {
  return kind.type == kNoGpuType ? kind.size * kMillisPerCore : kind.size;
}

bool IsOfKind(const RecordedNode& node, const Kind& kind) {
  const auto found = node.capacity.find(CountedResource(kind.type));
  return node.gpu_type == kind.type && found != node.capacity.end() && found->second == AmountOf(kind);
}

scheduling::Resources CapacityOf(const Kind& kind, const std::vector<RecordedNode>& nodes) {
  scheduling::Resources capacity;
  if (kind.type != kNoGpuType) capacity[scheduling::kCpu] = kEnough;
  capacity[scheduling::kMemory] = kEnough;
  capacity[CountedResource(kind.type)] = AmountOf(kind);
  const auto like = std::find_if(nodes.begin(), nodes.end(),
                                 [&](const RecordedNode& node) { return IsOfKind(node, kind); });
  return like == nodes.end() ? capacity : like->capacity;
}

}  // namespace

absl::StatusOr<std::string> FindGpuType(const std::vector<RecordedNode>& nodes, const std::string& text) {
  std::set<std::string> types;
  for (const RecordedNode& node : nodes) {
    if (node.gpu_type == text) return text;
    if (absl::StrContains(absl::AsciiStrToLower(node.gpu_type), absl::AsciiStrToLower(text))) {
      types.insert(node.gpu_type);
    }
  }
  if (types.size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" may be any of ",
                                                   absl::StrJoin(types, ", "), "; write more of the name"));
  }
  return types.empty() ? text : *types.begin();
}

absl::Status AddNodes(const std::string& text, std::vector<RecordedNode>* nodes) {
  absl::StatusOr<Kind> kind = ParseKind(text);
  if (!kind.ok()) return kind.status();
  absl::StatusOr<std::string> type = FindGpuType(*nodes, kind->type);
  if (!type.ok()) return type.status();
  kind->type = *std::move(type);
  const scheduling::Resources capacity = CapacityOf(*kind, *nodes);
  for (int i = 0; i < kind->nodes; ++i) {
    // No node is called so: ids hold no blanks.
    nodes->push_back({absl::StrCat("new ", nodes->size()), kind->type, capacity});
  }
  return absl::OkStatus();
}

absl::Status RemoveNodes(const std::string& text, std::vector<RecordedNode>* nodes) {
  const auto named =
      std::find_if(nodes->begin(), nodes->end(), [&](const RecordedNode& node) { return node.id == text; });
  if (named != nodes->end()) {
    nodes->erase(named);
    return absl::OkStatus();
  }
  absl::StatusOr<Kind> kind = ParseKind(text);
  if (!kind.ok())
    return absl::InvalidArgumentError(absl::StrCat(kind.status().message(), ", or a node's id"));
  absl::StatusOr<std::string> type = FindGpuType(*nodes, kind->type);
  if (!type.ok()) return type.status();
  kind->type = *std::move(type);
  for (int i = 0; i < kind->nodes; ++i) {
    const auto last = std::find_if(nodes->rbegin(), nodes->rend(),
                                   [&](const RecordedNode& node) { return IsOfKind(node, *kind); });
    if (last == nodes->rend()) {
      return absl::InvalidArgumentError(absl::StrCat("there are ", i, " nodes with ", kind->size, " ",
                                                     kind->type, "; ", text, " asks for more"));
    }
    nodes->erase(std::next(last).base());
  }
  return absl::OkStatus();
}

}  // namespace adaptdl::simulator
