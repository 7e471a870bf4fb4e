// What a speed is worth to the cluster: the value that the goodput policy adds up over the jobs.
//
// The sum of the jobs' completion times falls by a certain amount for each second of work that is done on a
// job now: its price. Pricing follows heSRPT, which is optimal for jobs of known sizes and speed-ups k^q that
// are all there from the start (Berg, Vesilo and Harchol-Balter, "heSRPT: parallel scheduling to minimize
// mean slowdown", 2020): of n jobs, the one with rank i from the longest has the price
//
//   (i^c - (i-1)^c)^(1-q),   c = 1 / (1 - q)
//
// so that short jobs go first, as far as they can make use of it, and no job ever has the price 0. Work of
// jobs that scale badly is dearer, because it takes long even when the cluster is less busy: the price is
// divided by (speed-up at twice the fair share of the cluster)^eta.
//
// Length is remaining work, where the job knows it. Where it doesn't, it is what finished jobs of its kind say
// (past_work.h). Where there are none, it is guessed from the work that it has
// done: those that did much have much left (the remaining time of a heavy-tailed job grows with its age).
// Guesses are steps of a coarse ladder, so that jobs do not overtake each other all the time; of jobs on one
// step, the one submitted last counts as the shortest, and of those submitted about together, the first. A
// job that has measured nothing yet counts as shorter than all that have, of several the one that was
// submitted first: one replica for a minute tells what it is. goodput/queue.h says what such jobs may take
// from others.
//
// A speed counts by a power below 1 of how many times it is that of the job's least size where that is slowest: a
// second GPU is worth less than a first, also to a job that makes as much of it, and a fast GPU is worth as much to a
// job as it is faster for it than for others. (Policies that know no work left, as those of Pollux and Sia, share by
// such powers, too.)
//
// A change of allocation costs time, in which the job makes no progress, and the work that is in no
// checkpoint: its speed counts only for what is left of the horizon after it. And a job that was changed often for its
// age is left alone: no more of its speed counts than the part of its life that it would have run, had it and each
// change so far cost what one costs now (Jayaram Subramanya et al., "Sia: heterogeneity-aware, goodput-optimized
// ML-cluster scheduling", 2023: its restart factor). Likewise, to be left where it
// is is worth more to a job the more of such work it has.
//
// A job may at most double the largest size that it has measured. The largest size that it may have now is
// therefore worth a little more than its speed: it opens the way to larger ones, if the next change is cheap.
//
// Pure; thread-safe.

#ifndef ADAPTDL_LIBS_SCHEDULING_GOODPUT_VALUATION_H_
#define ADAPTDL_LIBS_SCHEDULING_GOODPUT_VALUATION_H_

#include <vector>

#include "libs/scheduling/goodput/cluster_model.h"

namespace adaptdl::scheduling {

struct ValuationOptions {
  // q: how well jobs scale, as the pricing sees it. In [0, 1): 0 shares equally, near 1 the shortest job gets
  // all. For known lengths, and for guessed ones, which say less.
  double concavity = 0.8;
  double guessed_concavity = 0.6;
  // eta: in [0, 1]. For known lengths, and for guessed ones.
  double scaling_exponent = 0.45;
  double guessed_scaling_exponent = 0;
  // What a speed counts: a power of it, in (0, 1].
  double speed_exponent = 0.85;
  // What the price of a job that has measured nothing yet is multiplied by, which puts it before all that have.
  double unmeasured_price = 10;
  // Length of a job that has measured nothing yet, in seconds at speed-up 1.
  double unmeasured_length = 600;
  // The ladder of guesses: its first step, in seconds at speed-up 1, and the ratio of the steps.
  double first_step = 40000;
  double step_ratio = 4;
  // Jobs that were submitted in one stretch of so many seconds were submitted about together.
  double burst = 300;
  // Time over which a change must pay, in seconds, and as a multiple of its cost: the larger of both; less,
  // if the job ends sooner.
  double horizon = 300;
  double horizon_in_costs = 4;
  // What opening the way to larger sizes adds to a size's value, if the next change costs nothing; nothing if
  // it costs a tenth of the horizon.
  double exploration = 0.1;
  // A job that had less than this part of its fair share for `patience` seconds gains weight as it waits.
  double least_share = 0.02;
  double patience = 3600;
};

class Valuation {
 public:
  Valuation(const ClusterModel& model, const ValuationOptions& options);

  // Value of running with this speed-up. Greater than 0 if the speed-up is. `changes`: whether the job is not
  // left where it is. `opens`: whether larger sizes are possible once this one is measured.
  double Value(int job, double speedup, bool changes, bool opens) const;

  // Value of a speed-up of 1 that nothing has to be given up for.
  double Price(int job) const { return terms_[job].price; }

 private:
  struct Terms {
    double price = 1;
    // Speeds are counted in this one.
    double least_speed = 1;
    // The most that a change leaves of its speed.
    double calmness = 1;
    // Work left, in seconds at speed-up 1.
    double length = 0;
    // What a change costs, and how much more it is worth to be left alone for the work that would be lost.
    double change_seconds = 0;
    double staying = 1;
    // Over which a change must pay.
    double horizon = 0;
    // Factor of sizes that open the way to larger ones.
    double opening = 1;
  };

  const double exponent_;
  std::vector<Terms> terms_;
};

}  // namespace adaptdl::scheduling

#endif  // ADAPTDL_LIBS_SCHEDULING_GOODPUT_VALUATION_H_
