#include "simulator/cluster.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace adaptdl::simulator {
namespace {

constexpr int kMostNodes = 100'000;
constexpr int kMostGpusPerNode = 64;

absl::Status BadGroup(absl::string_view text) {
  return absl::InvalidArgumentError(
      absl::StrCat("cluster: \"", text,
                   "\" is no group of nodes; write <nodes>x<GPUs per node>, as in 16x4, "
                   "or <type>:<nodes>x<GPUs per node>, as in rtx:3x8"));
}

}  // namespace

int CountGpus(const Placement& placement) {
  int gpus = 0;
  for (const NodeShare& share : placement) {
    gpus += share.gpus;
  }
  return gpus;
}

absl::StatusOr<Cluster> Cluster::Parse(absl::string_view text) {
  Cluster cluster;
  for (const absl::string_view group : absl::StrSplit(text, ',')) {
    if (absl::Status status = cluster.AddGroup(group); !status.ok()) {
      return status;
    }
  }
  return cluster;
}

absl::Status Cluster::AddGroup(absl::string_view text) {
  const std::pair<absl::string_view, absl::string_view> halves =
      text.find(':') == absl::string_view::npos
          ? std::make_pair(absl::string_view(kDefaultType), text)
          : std::pair<absl::string_view, absl::string_view>(absl::StrSplit(text, absl::MaxSplits(':', 1)));
  const std::vector<absl::string_view> numbers = absl::StrSplit(halves.second, 'x');
  int nodes = 0;
  int gpus = 0;
  if (halves.first.empty() || numbers.size() != 2 || !absl::SimpleAtoi(numbers[0], &nodes) ||
      !absl::SimpleAtoi(numbers[1], &gpus) || nodes < 1 || nodes > kMostNodes || gpus < 1 ||
      gpus > kMostGpusPerNode) {
    return BadGroup(text);
  }
  const std::string type(halves.first);
  if (std::find(types_.begin(), types_.end(), type) != types_.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("cluster: the type ", type, " appears twice; name all nodes of one type in one group"));
  }
  types_.push_back(type);
  nodes_.insert(nodes_.end(), nodes, Node{gpus, static_cast<int>(types_.size()) - 1});
  return absl::OkStatus();
}

int Cluster::total_gpus() const {
  int gpus = 0;
  for (const Node& node : nodes_) {
    gpus += node.gpus;
  }
  return gpus;
}

int Cluster::total_gpus(int type) const {
  int gpus = 0;
  for (const Node& node : nodes_) {
    gpus += node.type == type ? node.gpus : 0;
  }
  return gpus;
}

int Cluster::largest_node(int type) const {
  int gpus = 0;
  for (const Node& node : nodes_) {
    gpus = node.type == type ? std::max(gpus, node.gpus) : gpus;
  }
  return gpus;
}

Placement Cluster::Pack(int type, int gpus) const {
  Placement placement;
  for (int i = 0; gpus > 0 && i < static_cast<int>(nodes_.size()); ++i) {
    if (nodes_[i].type == type) {
      placement.push_back({i, std::min(gpus, nodes_[i].gpus)});
      gpus -= placement.back().gpus;
    }
  }
  return placement;
}

}  // namespace adaptdl::simulator
