// How much faster a job trains with more replicas: one table per job.
//
// The model only asks whether a job spans several nodes, so two rows by replica count say everything.
//
// Immutable once made; thread-safe.

#ifndef ADAPTDL_LIBS_GOODPUT_SPEEDUP_TABLE_H_
#define ADAPTDL_LIBS_GOODPUT_SPEEDUP_TABLE_H_

#include <vector>

#include "libs/goodput/model.h"
#include "libs/goodput/optimize.h"

namespace adaptdl::goodput {

class SpeedupTable {
 public:
  // No speed-up at any size.
  SpeedupTable() = default;

  // Goodput relative to one replica, each at its best batch size, for 1 to max_replicas replicas. If one
  // replica can't be fed within the limits, relative to one replica's part of the smallest size that can.
  // Sizes that can't be fed have the value 0. REQUIRES: the limits pass Validate(), max_replicas >= 1.
  static SpeedupTable Build(const GoodputFunction& goodput, const BatchLimits& limits, int max_replicas);

  // n replicas are n times as fast. For jobs that have measured nothing.
  static SpeedupTable Linear(int max_replicas);

  // Speed-ups by number of replicas from 0, on one node and on several, in any unit. REQUIRES: both are as
  // long, and begin with 0.
  static SpeedupTable FromRows(std::vector<double> one_node, std::vector<double> several_nodes);

  // The speed-up. 0 replicas: 0. More replicas than the table has: the value for the largest.
  double At(int nodes, int replicas) const;

  // Largest number of replicas in the table.
  int max_replicas() const { return static_cast<int>(one_node_.size()) - 1; }

 private:
  // By number of replicas, from 0.
  std::vector<double> one_node_ = {0};
  std::vector<double> several_nodes_ = {0};
};

}  // namespace adaptdl::goodput

#endif  // ADAPTDL_LIBS_GOODPUT_SPEEDUP_TABLE_H_
