// What jobs take of nodes that have a price: each job the kind of node and the size at which what its speed is worth
// exceeds the price of its nodes by most, and its smallest size in any case.
//
// Nodes of a kind come in tiers, each with a price and an amount. Where a kind runs out its price rises, until jobs take
// no more than there is: jobs that gain most there stay, others go to other kinds or do with less. What comes out is
// the Lagrangian relaxation of the choice of sizes, with prices of what is scarce as multipliers (Everett, "Generalized
// Lagrange multiplier method for solving problems of optimum allocation of resources", 1963): exact for the numbers of
// nodes that it returns but for gaps of one job's step, and for gaps that sizes leave on nodes.
//
// O(searches x jobs x log(sizes)), and as often as a kind's turn comes, all jobs' other kinds. Pure; thread-safe.

#ifndef ADAPTDL_LIBS_NODEPOOLS_MARKET_H_
#define ADAPTDL_LIBS_NODEPOOLS_MARKET_H_

#include <vector>

#include "libs/scheduling/job_demand.h"

namespace adaptdl::nodepools {

// Sums of parts of nodes are exact but for this.
inline constexpr double kRounding = 1e-9;

// Nodes that can be had at one price.
struct Tier {
  // For a node and hour. At least 0.
  double price = 0;
  double nodes = 0;
  // Whether they are there to stay: not taken away at short notice.
  bool lasting = true;
};

// What one kind of node can be had for, the cheapest first. Empty: there are none of it.
using Supply = std::vector<Tier>;

// A job, and what it is to the market.
struct Buyer {
  const scheduling::JobDemand* demand = nullptr;
  // What a speed-up of 1 is worth to it, for an hour. At least 0.
  double worth = 0;
  // The kind that it is on; a little is added to what it is worth there, as moving costs. -1: none.
  int present_kind = -1;
  // Speed-up that it must reach, where any size does. 0: its smallest size is enough.
  double least_speedup = 0;
};

struct Purchase {
  // Index of the kind. -1: it can run on none that there is.
  int kind = -1;
  // Index of its size there.
  int size = 0;
};

struct Bargain {
  // By job.
  std::vector<Purchase> purchases;
  // By kind: nodes that they take, in parts of nodes; more than there are where the smallest sizes do not fit.
  std::vector<double> nodes;
};

// `supplies`: by kind. `floor_prices`: by kind, the least price of the nodes that the smallest size of a job takes, whatever
// others cost; empty: they cost what others do.
Bargain Trade(const std::vector<Buyer>& buyers, const std::vector<Supply>& supplies,
              const std::vector<double>& floor_prices = {});

// Of a job's demand on a kind. Null: it can't run there.
const scheduling::KindDemand* DemandOn(const scheduling::JobDemand& job, int kind);

// Nodes that a size takes.
inline double NodesOf(const scheduling::KindDemand& demand, int size) {
  return static_cast<double>(demand.sizes[size].replicas) / demand.per_node;
}

}  // namespace adaptdl::nodepools

#endif  // ADAPTDL_LIBS_NODEPOOLS_MARKET_H_
