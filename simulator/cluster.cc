#include "simulator/cluster.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace adaptdl::simulator {
namespace {

constexpr int kMostGpusPerNode = 64;
// More processes than any node is given.
constexpr int64_t kMostReplicasPerNode = 1024;

absl::Status BadGroup(absl::string_view text) {
  return absl::InvalidArgumentError(
      absl::StrCat("cluster: \"", text,
                   "\" is no group of nodes; write <nodes>x<GPUs per node>, as in 16x4, "
                   "or <type>:<nodes>x<GPUs per node>, as in rtx:3x8"));
}

}  // namespace

std::string NodeId(int node) { return absl::StrFormat("node-%06d", node); }

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
  AddNodes(nodes, {gpus, static_cast<int>(types_.size()) - 1, {{scheduling::kGpu, gpus}}});
  return absl::OkStatus();
}

absl::StatusOr<Cluster> Cluster::FromGroups(const std::vector<Group>& groups) {
  const auto gpus_of = [](const Group& group) {
    const auto found = group.capacity.find(scheduling::kGpu);
    return found == group.capacity.end() ? 0 : static_cast<int>(found->second);
  };
  const auto cores_of = [](const Group& group) {
    const auto found = group.capacity.find(scheduling::kCpu);
    return found == group.capacity.end() ? 0 : static_cast<int>(found->second / 1000);
  };
  Cluster cluster;
  int64_t nodes = 0;
  bool has_gpus = false;
  for (const Group& group : groups) {
    if (group.nodes < 1) continue;
    nodes += group.nodes;
    has_gpus = has_gpus || gpus_of(group) > 0;
    if (std::find(cluster.types_.begin(), cluster.types_.end(), group.type) == cluster.types_.end()) {
      cluster.types_.push_back(group.type);
    }
  }
  if (nodes < 1 || nodes > kMostNodes) {
    return absl::InvalidArgumentError(
        absl::StrCat("cluster: it has ", nodes, " nodes; it must have 1 to ", kMostNodes));
  }
  for (int type = 0; type < static_cast<int>(cluster.types_.size()); ++type) {
    for (const Group& group : groups) {
      if (group.nodes < 1 || group.type != cluster.types_[type]) continue;
      const int gpus = has_gpus ? gpus_of(group) : cores_of(group);
      cluster.AddNodes(group.nodes, {gpus, type, group.capacity});
    }
  }
  return cluster;
}

void Cluster::AddNodes(int nodes, const Node& node) {
  nodes_.insert(nodes_.end(), nodes, node);
  const auto alike = std::find_if(kinds_.begin(), kinds_.end(), [&](const Kind& kind) {
    return kind.type == node.type && kind.capacity == node.capacity;
  });
  if (alike != kinds_.end()) {
    alike->nodes += nodes;
  } else {
    kinds_.push_back({node.type, node.capacity, nodes});
  }
}

int Cluster::TotalReplicas(int type, const scheduling::Resources& request) const {
  int64_t replicas = 0;
  for (const Kind& kind : kinds_) {
    if (kind.type != type) continue;
    replicas += kind.nodes * scheduling::TimesThatFit(request, kind.capacity, kMostReplicasPerNode);
  }
  return static_cast<int>(replicas);
}

int Cluster::LargestNode(int type, const scheduling::Resources& request) const {
  int64_t most = 0;
  for (const Kind& kind : kinds_) {
    if (kind.type != type) continue;
    most = std::max(most, scheduling::TimesThatFit(request, kind.capacity, kMostReplicasPerNode));
  }
  return static_cast<int>(most);
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
