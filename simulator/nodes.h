// Which nodes are there: failures and repairs, spot nodes that are taken away, nodes that are started, drained
// and removed.
//
//             Start()            Drain()
//   absent ───────────▶ starting ──▶ up ─────▶ draining
//      ▲                  ▲          │ ▲  notice│  │ notice
//      │                  │          │ └────────┼──┼─▶ leaving
//      │                  │ failure  ▼ repaired │  │      │ taken away
//      └──── Remove() ────┴─────── away ◀───────┴──┴──────┘
//
// A node that failed or was taken away comes back by itself; in pools whose size is decided, one that was drained
// or taken away is absent instead. All chances are drawn by seed, node and number of the draw, in whole seconds,
// so that they depend neither on jobs nor on each other. Not thread-safe.

#ifndef ADAPTDL_SIMULATOR_NODES_H_
#define ADAPTDL_SIMULATOR_NODES_H_

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "libs/nodepools/target.h"
#include "simulator/cluster.h"
#include "simulator/spot_market.h"

namespace adaptdl::simulator {

// Time of what does not happen.
inline constexpr double kNever = std::numeric_limits<double>::infinity();

// The nodes of one GPU type, of which the first ones are there at the start.
struct PoolBounds {
  int start = 0;
  int min = 0;
  int max = 0;
};

// All times in seconds.
struct NodeOptions {
  // Mean time between failures of one node; exponential. 0: none fails.
  double mtbf = 0;
  double repair = 600;
  // By GPU type: so many nodes, the last ones, may be taken away. Empty: none.
  std::vector<int> spot_nodes = {};
  // Mean time until a spot node is taken away; exponential. 0: none is.
  double spot_lifetime = 0;
  // Nodes are taken together (SpotMarket), each with this chance. 0: one by one.
  double spot_together = 0;
  double spot_notice = 30;
  double spot_return = 600;
  // In pools whose size is decided: mean length of times without capacity, which follow when nodes are taken
  // together, and mean time from one that begins by itself to the next. 0: there are none.
  double spot_refusal = 0;
  double spot_scarcity = 0;
  // By GPU type. Empty: the number of nodes is fixed. The last ones are spot nodes, as above: the pool is two, of
  // nodes that last and of those that do not.
  std::vector<PoolBounds> pools = {};
  double start = 180;
  double cooldown = 60;
  // What all pools aim at; its cool-down and times of day are those of the simulation, above and below.
  nodepools::Target target = {};
  // For the target mode of that name: seconds since the start.
  double deadline = 0;
  // Of a node and hour, by GPU type. Empty: unknown.
  std::vector<double> lasting_prices = {};
  std::vector<double> spot_prices = {};

  // Whether nodes ever come or go, or differ.
  bool dynamic() const { return mtbf > 0 || !spot_nodes.empty() || !pools.empty(); }
};

// INVALID_ARGUMENT: an option is out of its range or does not fit the cluster.
absl::Status CheckNodeOptions(const NodeOptions& options, const Cluster& cluster);

enum class NodePhase { kAbsent = 0, kStarting, kUp, kDraining, kLeaving, kAway };

// A stretch of time for which a node is to be paid: from its start until it is gone, failed or taken away.
struct NodeSpan {
  int node = 0;
  double start = 0;
  double end = 0;
  bool spot = false;
};

class Nodes {
 public:
  enum class Change { kArrived = 0, kNotice, kFailed, kTaken };
  struct Event {
    int node = 0;
    Change change = Change::kArrived;
  };

  // The options fit the cluster, which outlives this.
  Nodes(const Cluster& cluster, const NodeOptions& options, uint64_t seed);

  // When something happens next. Infinite: never.
  double NextEvent() const;
  // What happens until then: reclaims of spot nodes, then the rest in order of node. At most one event per node and
  // call.
  std::vector<Event> Advance(double now);

  // Whether nodes like this one can be had.
  bool HasCapacity(int node, double now);
  // REQUIRES: the node is absent.
  void Start(int node, double now);
  // Jobs are to leave it. REQUIRES: the node is up.
  void Drain(int node);
  // REQUIRES: the node is not absent.
  void Remove(int node, double now);

  NodePhase phase(int node) const { return nodes_[node].phase; }
  // By node; what schedulers see.
  const std::vector<NodeStatus>& status() const { return status_; }
  // All of them until `end`, in order of their ends; after this, no more.
  std::vector<NodeSpan> CloseSpans(double end);

 private:
  struct Node {
    int type = 0;
    NodePhase phase = NodePhase::kAbsent;
    double phase_end = 0;  // when the phase ends by itself
    double fails_at = 0;
    double notice_at = 0;
    double paid_since = 0;
    int draws = 0;
  };

  // Gives those notice that the market takes by now.
  void Reclaim(double now, std::vector<Event>* events);
  void Enter(int node, NodePhase phase, double now, double seconds);
  // After a node has failed or was taken away.
  void Lose(int node, bool returns, double now, double seconds);
  void Arrive(int node, double now);
  double Draw(const char* what, int node, double mean, double now);
  void CloseSpan(int node, double now);

  const NodeOptions options_;
  const uint64_t seed_;
  const int types_;
  SpotMarket market_;
  std::vector<Node> nodes_;
  std::vector<NodeStatus> status_;
  std::vector<NodeSpan> spans_;
};

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_SIMULATOR_NODES_H_
