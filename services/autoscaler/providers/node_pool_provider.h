// Where the nodes of a pool come from: processes on this machine, a cloud's machines, nodes of a Kubernetes cluster.
//
// A provider makes and ends nodes, and gives them their ids; when and how many is decided above it. Its own restart
// loses nothing: what it made before, it finds again.
//
// Thread-safety: called by one thread at a time.

#ifndef ADAPTDL_SERVICES_AUTOSCALER_PROVIDERS_NODE_POOL_PROVIDER_H_
#define ADAPTDL_SERVICES_AUTOSCALER_PROVIDERS_NODE_POOL_PROVIDER_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "adaptdl/v1/node.pb.h"

namespace adaptdl::autoscaler {

// Label of a node that names its pool.
inline constexpr char kPoolLabel[] = "adaptdl.petuum.com/pool";

enum class ProvidedState {
  // Asked for; there is no machine yet that is known to be it.
  kRequested,
  // It is there.
  kAlive,
  // It is there, and may be what a kRequested one asked for: an empty one and a kRequested one count as one node.
  kArrived,
  // It is there, and is not held any more: if it is empty it counts as gone, until somebody uses it again.
  kReleased,
  // It was told to stop and is still there.
  kStopping,
  // It ended, and nobody told it to: RestartNode() brings it back with what it held, TerminateNode() gives it up.
  kDead,
};

struct ProvidedNode {
  std::string node_id;
  ProvidedState state = ProvidedState::kAlive;
  // What keeps it from coming, for people. Empty: nothing that is worth a word.
  std::string hindrance = {};
  // What its cloud calls the machine. Empty: it is none of a cloud, or not known yet.
  std::string instance_id = {};
  // IP address from which it speaks to the supervisor. Empty: unknown.
  std::string address = {};
  // When it began to cost. Absent: unknown.
  std::optional<absl::Time> create_time = std::nullopt;
};

// What the nodes of a pool are like.
struct PoolKind {
  // The labels by which the supervisor's nodes are known to be of the pool.
  std::map<std::string, std::string> labels;
  // One of them, with its labels and what it holds. Absent: unknown until there is one.
  std::optional<v1::Node> node = std::nullopt;
};

struct KeptNode {
  std::string node_id;
  // Whether no replica is on it.
  bool is_empty = false;
};

class NodePoolProvider {
 public:
  virtual ~NodePoolProvider() = default;

  // Kind of the provider, for people and metrics.
  virtual absl::string_view name() const = 0;
  virtual PoolKind kind() const = 0;
  // Whether those who take its nodes away drain them first, and have the supervisor forget them. Else the pool does.
  virtual bool ends_nodes_gently() const { return false; }

  // All nodes that were asked for and are not gone, in order of node_id.
  virtual absl::StatusOr<std::vector<ProvidedNode>> ListNodes() = 0;

  struct Created {
    // Of the nodes that are being made.
    std::vector<std::string> node_ids;
    // Why they are fewer than wanted. RESOURCE_EXHAUSTED: there is no capacity to be had for now, or a quota is used up.
    absl::Status status = {};
  };
  // Makes so many nodes more. Does not wait until they work. Their ids are none of `taken_ids`.
  virtual Created CreateNodes(int count, const std::set<std::string>& taken_ids) = 0;

  // Brings back a node that is kDead, under its id. Does nothing if it is alive; FAILED_PRECONDITION if it is stopping.
  virtual absl::Status RestartNode(const std::string& node_id) = 0;

  // Ends a node. Does not wait: it is over when ListNodes() shows it no more, or as kReleased. Idempotent, and fine
  // for unknown ones.
  virtual absl::Status TerminateNode(const std::string& node_id) = 0;

  // The pool's nodes that are to stay, each round: for providers whose idle nodes would go if nobody held them.
  virtual absl::Status KeepNodes(const std::vector<KeptNode>& /*nodes*/) { return absl::OkStatus(); }
};

}  // namespace adaptdl::autoscaler

#endif  // ADAPTDL_SERVICES_AUTOSCALER_PROVIDERS_NODE_POOL_PROVIDER_H_
