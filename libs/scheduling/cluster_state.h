// An allocation in the making: which job has how many replicas on which node, and what room is left.
//
// Besides what is placed, the state knows two kinds of claims on nodes, so that newcomers disturb nobody
// without need: what each job holds at present (`Room::kUnclaimed` leaves it alone), and the part of it that
// the job can't do without (`Room::kSpareCores` leaves that alone).
//
// Jobs and nodes are named by their index in the view, which must outlive the state. Not thread-safe.

#ifndef ADAPTDL_LIBS_SCHEDULING_CLUSTER_STATE_H_
#define ADAPTDL_LIBS_SCHEDULING_CLUSTER_STATE_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "libs/scheduling/policy.h"

namespace adaptdl::scheduling {

// Replicas of one job on one node.
struct Share {
  int node = 0;
  int replicas = 0;
  bool operator==(const Share& other) const { return node == other.node && replicas == other.replicas; }
};

// One job's replicas, in order of node.
using Placement = std::vector<Share>;

int CountReplicas(const Placement& placement);

// Which room counts as free.
enum class Room {
  kUnclaimed = 0,   // neither placed nor held by another job at present
  kSpareCores = 1,  // not placed, nor part of another job's minimum at present
  kAny = 2,         // not placed
};

class ClusterState {
 public:
  // Nothing is placed. `present` is what each job holds, by job; its claims are at most that.
  ClusterState(const ClusterView& view, const std::vector<Placement>& present);

  int job_count() const { return static_cast<int>(placed_.size()); }
  int node_count() const { return static_cast<int>(usable_.size()); }
  const JobInfo& job(int index) const { return view_.jobs[index]; }

  // Replicas of `job` that `node` has room for. Draining nodes have none.
  int RoomFor(int job, int node, Room room) const;

  // Whether RoomFor() is at least `replicas`; faster.
  bool HasRoom(int job, int node, int replicas, Room room) const;

  // What is left on `node` of the resource that the job takes the largest part of, in its unit.
  int64_t Leftover(int job, int node, Room room) const {
    return free_[static_cast<int>(room)][Cell(node) + main_resource_[job]];
  }

  // Replicas of `job` that an empty `node` holds.
  int Capacity(int job, int node) const;

  // Whether there is room (Room::kAny) for all of `placement` on top of what is placed.
  bool Fits(int job, const Placement& placement) const;

  // Places or removes replicas. Placing needs no room: what must stay is placed in any case.
  void Add(int job, int node, int replicas);
  void Remove(int job, int node, int replicas);
  void Place(int job, const Placement& placement);
  // Removes all replicas of the job. Returns where they were.
  Placement Clear(int job);

  // Gives up the claims of a job on what it holds at present.
  void DropClaims(int job);

  // Adds a node that can be used. Returns its index.
  int AddNode(const Resources& capacity);

  const Placement& placement(int job) const { return placed_[job]; }
  const Placement& present(int job) const { return present_[job]; }
  int replicas(int job) const { return replicas_[job]; }
  int replicas_on(int job, int node) const;
  int present_on(int job, int node) const;
  bool IsIdle(int node) const { return replicas_on_node_[node] == 0; }
  bool usable(int node) const { return usable_[node]; }
  bool node_preemptible(int node) const { return preemptible_[node]; }

  // Speed-up of the job as it is placed; and of a number of replicas on so many nodes.
  double Speedup(int job) const;
  double Speedup(int job, int nodes, int replicas) const {
    return view_.jobs[job].speedup->At(nodes, replicas);
  }
  double Speedup(int job, const Placement& placement) const;

  // Part of the cluster that one replica takes: the largest over its resources. Never 0.
  double DominantShare(int job) const { return dominant_share_[job]; }

 private:
  // One resource that a job asks for.
  struct Need {
    int resource = 0;
    int64_t amount = 0;
  };

  size_t Cell(int node) const { return static_cast<size_t>(node) * names_.size(); }
  void Occupy(Room room, int job, int node, int64_t replicas);
  int TimesIn(int job, const int64_t* amounts) const;
  static int On(const Placement& placement, int node);

  const ClusterView& view_;
  std::vector<std::string> names_;            // of the resources that jobs ask for; at least one
  std::vector<std::vector<Need>> needs_;      // by job
  std::vector<int> main_resource_;            // by job
  std::vector<int64_t> capacity_;             // by node and resource
  std::array<std::vector<int64_t>, 3> free_;  // by Room; by node and resource
  std::vector<char> usable_;                  // by node
  std::vector<char> preemptible_;             // by node
  std::vector<Placement> placed_;
  std::vector<Placement> present_;
  std::vector<Placement> core_;
  std::vector<int> replicas_;          // by job
  std::vector<int> replicas_on_node_;  // by node
  std::vector<double> dominant_share_;
};

}  // namespace adaptdl::scheduling

#endif  // ADAPTDL_LIBS_SCHEDULING_CLUSTER_STATE_H_
