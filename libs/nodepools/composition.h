// From a target to numbers of nodes of each kind.
//
// Pure; thread-safe.

#ifndef ADAPTDL_LIBS_NODEPOOLS_COMPOSITION_H_
#define ADAPTDL_LIBS_NODEPOOLS_COMPOSITION_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "libs/nodepools/market.h"
#include "libs/nodepools/target.h"
#include "libs/scheduling/job_demand.h"

namespace adaptdl::nodepools {

// What nodes of one kind there are and can be had.
struct KindOffer {
  // All that can be had, those that are there included; the cheapest first. Without prices all have the price 1, and
  // those that nobody pays for the price 0.
  Supply supply;
  // Those that are there or on their way, in all.
  int nodes = 0;
  // How long a new one takes to come.
  absl::Duration start_time;
};

// A job as the deciding code sees it.
struct JobView {
  scheduling::JobDemand demand;
  // The kind that it runs on, and its speed-up there; -1 and 0: it waits.
  int present_kind = -1;
  double present_speedup = 0;
};

// How many nodes of each kind are wanted.
struct Composition {
  // By kind. `grow`: there are to be at least so many; `keep`: those beyond so many may go. grow <= keep.
  std::vector<int> grow;
  std::vector<int> keep;
  // By kind: what jobs need at least, in parts of nodes.
  std::vector<double> floor;
  // Part of the nodes that are there that is put to full use. Absent: there are none.
  std::optional<double> utility;
  // Of jobs that can run on no kind that is there or can be had; of jobs that wait.
  int unplaced_jobs = 0;
  int waiting_jobs = 0;
  // Why, for people.
  std::string reason;
};

// What so many nodes of each kind cost per hour, of which jobs need so many parts at least; for kBudget.
using CostFunction = std::function<double(const std::vector<int>& nodes, const std::vector<double>& floor)>;

// `offers`: by kind. `jobs`: in order of submission.
Composition Compose(const Target& target, const std::vector<JobView>& jobs,
                    const std::vector<KindOffer>& offers, const CostFunction& cost, absl::Time now);

}  // namespace adaptdl::nodepools

#endif  // ADAPTDL_LIBS_NODEPOOLS_COMPOSITION_H_
