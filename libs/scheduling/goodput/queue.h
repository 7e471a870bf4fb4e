// The queue: which jobs keep their places whatever others would make of them, and which of those that have
// not measured themselves may start.
//
// A job that has measured nothing is worth a try, and is started before those that have: what it takes from
// them they get back as soon as it has measured itself. But it may be a plain program, which never does, and
// which loses all that it did when it is stopped; nobody can tell before it has reported anything. So:
//
//  1. A running job that has not measured itself keeps its place: a plain one until it ends, one that uses
//  the
//     training library until it had the time to (MeasuringSeconds()). Only jobs of a higher priority, its
//     namespace's quota, or a node that drains take the place from it. Who would lose most keeps it longest.
//  2. Newcomers - they wait, and have not measured themselves - start in the order of their prices: of equals
//     those that lost their place first, then as they were submitted. None passes one that wants the same
//     pool and will get its room once others have ended.
//  3. They leave room to jobs that were submitted earlier and compete by what is gained: half of the room, or
//     what these need at least, if that is less. So many newcomers delay a long job, but do not stop it
//     for good.
//
// Levels of priority are dealt with one by one, from the highest: lower ones get what is left.
//
// Works on a Menu (not owned). Not thread-safe.

#ifndef ADAPTDL_LIBS_SCHEDULING_GOODPUT_QUEUE_H_
#define ADAPTDL_LIBS_SCHEDULING_GOODPUT_QUEUE_H_

#include <cstdint>
#include <map>
#include <vector>

#include "libs/scheduling/goodput/cluster_model.h"
#include "libs/scheduling/goodput/menu.h"
#include "libs/scheduling/goodput/valuation.h"

namespace adaptdl::scheduling {

class Queue {
 public:
  // All outlive the queue. The menu holds every size that each job may have.
  Queue(const ClusterModel& model, const Valuation& valuation, Menu* menu);

  // Takes the jobs that keep their places out of the problem: nothing is left to choose for them, and the
  // capacity is what they leave.
  void HoldPlaces();

  // Takes the options of newcomers that may not start yet out of the problem, except where one may have what
  // nobody else wants. After HoldPlaces(), and after all else that says who may have what.
  void AdmitNewcomers();

 private:
  using Units = std::vector<int>;  // by pool

  // Jobs of one level that compete by what is gained, as they were submitted.
  struct Competitors {
    std::vector<int> jobs;
    // What the first 0, 1, 2, ... of them need at least.
    std::vector<Units> needed;
  };

  // Smallest size of the job in the pool; null: it can't be there.
  const Option* Least(int job, int pool) const;
  // Where the job is, or would best go; -1: nowhere.
  int PoolFor(int job, const Units& room) const;

  // What is left while places are given out.
  struct Ledger {
    Units room;
    // By pool: whether jobs of a higher level want some of it.
    std::vector<char> pressed;
    std::map<std::string, int> quota;  // GPUs, by namespace
  };
  Ledger Begin() const;
  // Whether the quota of the job's namespace is enough for so many replicas, which are then taken from it.
  bool Charge(int job, int replicas, Ledger* ledger) const;
  // Takes what the job needs at least from lower levels.
  void Press(int job, Ledger* ledger) const;
  // Those of a level that are to keep their places, who would lose most first.
  std::vector<int> Keepers(const std::vector<int>& level) const;
  // Whether the job's nodes have the room beside the jobs that keep their places there, which is then taken.
  bool TakePlace(int job);
  void AddToPlace(int job, int sign);
  void Hold(int job);

  // Those of one level of priority; takes what they get from the room, and what the level needs at least.
  void Admit(const std::vector<int>& level, Units* room);
  void Admit(int job, const Competitors& competitors, const Units& total, Units* room);
  // Strikes out the job's options in other pools; the value of the rest is multiplied.
  void Keep(int job, const std::vector<char>& pools, double factor);

  const ClusterModel& model_;
  const Valuation& valuation_;
  Menu& menu_;
  std::map<int, std::vector<int>> levels_;  // jobs that are not pinned, by priority
  std::vector<int64_t> free_;               // by node and resource
  std::vector<char> closed_;                // by pool: whether a newcomer waits for others to end there
};

}  // namespace adaptdl::scheduling

#endif  // ADAPTDL_LIBS_SCHEDULING_GOODPUT_QUEUE_H_
