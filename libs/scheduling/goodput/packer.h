// Where the replicas go: turns "so many replicas in that pool" into nodes, disturbing as few jobs as it can.
//
// A job that fits on one node gets one, the fullest that has room; a larger one gets nodes of its own, so
// that no two jobs share a network card. If there is room but not in one piece, jobs are moved out of the
// way; if that does not help either, the job is spread over what there is. Replicas stay on nodes where the
// job already has some, where they can. Of nodes that are as good, the least that a job needs goes to those that last,
// and the rest to those that may be taken away; a job that can't be moved goes to those that last wherever it can.
//
// Not thread-safe. The model must outlive it.

#ifndef ADAPTDL_LIBS_SCHEDULING_GOODPUT_PACKER_H_
#define ADAPTDL_LIBS_SCHEDULING_GOODPUT_PACKER_H_

#include <cstdint>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "libs/scheduling/goodput/cluster_model.h"

namespace adaptdl::scheduling {

// How far a job may go to get its replicas.
enum class Effort {
  kInOnePiece,  // one node, or nodes of its own
  kMoveOthers,  // the same, after moving jobs out of the way
  kSpread,      // wherever there is room; one job on several nodes per node if possible
};

class Packer {
 public:
  // Pinned jobs are where they are; nothing else is placed.
  explicit Packer(const ClusterModel& model);

  // Places the job where it is at present. False: there is no room. `keeps`: only jobs of a higher priority
  // may have it moved out of the way.
  bool Stay(int job, bool keeps = false);

  // Places a job that has nothing. False: not possible; nothing has changed.
  bool Place(int job, int pool, int replicas, Effort effort);

  // Takes away what the job has.
  void Remove(int job);

  // In order of node. Pinned jobs have what they hold.
  const Placement& placement(int job) const { return placed_[job]; }

 private:
  // How FindNode() looks.
  struct Search {
    int job = 0;
    int pool = 0;
    int replicas = 0;
    int except = -1;       // a node that must not be taken
    bool lasting = false;  // only nodes that are not preemptible
  };

  // A node that may be taken, and what it is better or worse by, in this order: less is better, but for the room.
  struct Candidate {
    bool first = false;
    bool second = false;
    int room = 0;
    int node = 0;
  };
  // Order of nodes of a pool: free units, whether it may be taken away, and the node.
  using NodeKey = std::tuple<int, bool, int>;

  NodeKey KeyOf(int node) const;
  // Whether it may be taken away.
  bool IsFleeting(int node) const;
  int RoomFor(int job, int node) const;
  // The first node of the pool, in order of room, that may have room for so many replicas.
  std::set<NodeKey>::const_iterator FirstWithRoom(int job, int pool, int replicas) const;
  void Take(int job, int node, int replicas);
  // -1: none.
  int FindNode(const Search& search) const;
  int FindLastingNode(Search search) const;
  bool PlaceOnOneNode(int job, int pool, int replicas);
  bool PlaceOnOwnNodes(int job, int pool, int replicas);
  bool PlaceAnywhere(int job, int pool, int replicas, bool avoid_distributed);
  // Places the job on the best of these. False: they have no room; nothing has changed.
  bool TakeInOrder(int job, int replicas, std::vector<Candidate> candidates);
  // Moves jobs away until the node has room. False: not possible; nothing has changed.
  bool Evacuate(int node, int job, int replicas);
  bool MoveAway(int job, int from);
  bool Prefers(int job, int node) const;

  const ClusterModel& model_;
  std::vector<int64_t> free_;             // by node and resource
  std::vector<std::set<NodeKey>> nodes_;  // by pool
  std::vector<std::vector<int>> guests_;  // by node: jobs that can be moved
  std::vector<int> distributed_;          // by node: jobs that are on other nodes too
  std::vector<char> occupied_;            // by node: by anything
  std::vector<char> keeps_;               // by job
  std::vector<Placement> placed_;
};

}  // namespace adaptdl::scheduling

#endif  // ADAPTDL_LIBS_SCHEDULING_GOODPUT_PACKER_H_
