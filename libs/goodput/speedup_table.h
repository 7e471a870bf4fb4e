// How much faster a job trains with more replicas: one table per job.
//
// The model only asks whether a job spans several nodes, so two rows by replica count say everything.
//
// A table that is built from a model works out a size when it is first asked for, since few of them ever are: a job may have only some
// sizes, and no more than twice the largest one that it has measured.
//
// Immutable to those who use it; thread-safe. Copies share what is worked out.

#ifndef ADAPTDL_LIBS_GOODPUT_SPEEDUP_TABLE_H_
#define ADAPTDL_LIBS_GOODPUT_SPEEDUP_TABLE_H_

#include <memory>
#include <optional>
#include <vector>

#include "libs/goodput/model.h"
#include "libs/goodput/optimize.h"

namespace adaptdl::goodput {

class SpeedupTable {
 public:
  // No speed-up at any size.
  SpeedupTable() = default;

  // Goodput relative to `base_goodput`, in samples per second, each size at its best batch size, for 1 to
  // max_replicas replicas. Sizes that can't be fed have the value 0.
  //
  // Without a base: relative to one replica, or, if one can't be fed within the limits, to one replica's part
  // of the smallest size that can. Tables of one job on several GPU types compare when all have the same
  // base, say that of its slowest type.
  //
  // REQUIRES: the model and the limits pass Validate(), max_replicas >= 1, base_goodput > 0.
  static SpeedupTable Build(const GoodputFunction& goodput, const BatchLimits& limits, int max_replicas,
                            std::optional<double> base_goodput = std::nullopt);

  // n replicas are n times as fast. For jobs that have measured nothing.
  static SpeedupTable Linear(int max_replicas);

  // Speed-ups by number of replicas from 0, on one node and on several, in any unit. REQUIRES: both are as
  // long, and begin with 0.
  static SpeedupTable FromRows(std::vector<double> one_node, std::vector<double> several_nodes);

  // The speed-up. 0 replicas: 0. More replicas than the table has: the value for the largest.
  double At(int nodes, int replicas) const;

  // The goodput that counts as speed-up 1, in samples of the initial batch size per second. 0: unknown (of a
  // linear or an empty table), or no size can be fed.
  double base_goodput() const { return base_goodput_; }

  // Largest number of replicas in the table.
  int max_replicas() const { return max_replicas_; }

 private:
  class Model;

  int max_replicas_ = 0;
  // By number of replicas, from 0, of a table that is given.
  std::vector<double> one_node_ = {0};
  std::vector<double> several_nodes_ = {0};
  // Null: the table is given.
  std::shared_ptr<const Model> model_;
  double base_goodput_ = 0;
};

}  // namespace adaptdl::goodput

#endif  // ADAPTDL_LIBS_GOODPUT_SPEEDUP_TABLE_H_
