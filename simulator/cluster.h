// The nodes of a simulated cluster.
//
//   absl::StatusOr<Cluster> cluster = Cluster::Parse("aws:6x4,rtx:3x8");
//
// Immutable; thread-safe.

#ifndef ADAPTDL_SIMULATOR_CLUSTER_H_
#define ADAPTDL_SIMULATOR_CLUSTER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/scheduling/resources.h"

namespace adaptdl::simulator {

// Largest cluster that is simulated.
inline constexpr int kMostNodes = 100'000;

// GPUs of one job on one node.
struct NodeShare {
  int node = 0;
  int gpus = 0;
  bool operator==(const NodeShare& other) const { return node == other.node && gpus == other.gpus; }
};

// All GPUs of one job, in order of rank. Neighbours are different nodes. Empty: none.
using Placement = std::vector<NodeShare>;

int CountGpus(const Placement& placement);

// How a node is at the moment.
struct NodeStatus {
  // Whether it can run replicas.
  bool up = true;
  // Will be taken away soon: replicas are to leave it.
  bool draining = false;
  // May be taken away at short notice.
  bool spot = false;
  bool operator==(const NodeStatus&) const = default;
};

// What policies call a node; sorts in the order of the cluster.
std::string NodeId(int node);

class Cluster {
 public:
  struct Node {
    int gpus = 0;
    int type = 0;  // index into gpu_types()
    // All that it offers to replicas, GPUs included.
    scheduling::Resources capacity;
  };

  // Equal nodes.
  struct Group {
    std::string type;
    int nodes = 0;
    scheduling::Resources capacity;
  };

  // The type of GPU when none is named: the one that the published traces were recorded on.
  static constexpr char kDefaultType[] = "aws";

  // "<nodes>x<GPUs per node>", or several "<type>:<nodes>x<GPUs per node>" separated by commas.
  // INVALID_ARGUMENT: anything else, named.
  static absl::StatusOr<Cluster> Parse(absl::string_view text);

  // Nodes of any capacity; several groups may be of one type. A node without GPUs in a cluster that has none
  // counts as having one for each whole core. INVALID_ARGUMENT: no nodes, or more than a cluster may have.
  static absl::StatusOr<Cluster> FromGroups(const std::vector<Group>& groups);

  // Nodes of one type stand together.
  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<std::string>& gpu_types() const { return types_; }
  int total_gpus() const;
  // GPUs of one type.
  int total_gpus(int type) const;
  // How many replicas that ask for so much the nodes of a type hold, and the largest of these nodes.
  int TotalReplicas(int type, const scheduling::Resources& request) const;
  int LargestNode(int type, const scheduling::Resources& request) const;

  // As densely as can be on nodes of one type, from its first node on. REQUIRES: 1 <= gpus <=
  // total_gpus(type).
  Placement Pack(int type, int gpus) const;

 private:
  // Nodes that are alike.
  struct Kind {
    int type = 0;
    scheduling::Resources capacity;
    int64_t nodes = 0;
  };

  absl::Status AddGroup(absl::string_view text);
  void AddNodes(int nodes, const Node& node);

  std::vector<Node> nodes_;
  std::vector<Kind> kinds_;
  std::vector<std::string> types_;
};

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_SIMULATOR_CLUSTER_H_
