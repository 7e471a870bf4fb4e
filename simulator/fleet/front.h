// A front that takes the submissions of a fleet and sends each to a cluster.
//
// It consists of several replicas that do not talk to each other. A replica knows the GPUs of each cluster, how many unfinished jobs
// the cluster had at its last report, what it has sent there itself since, and the homes of each tenant; nothing about jobs. Clusters
// report one after the other, each once in a period. Between reports clusters go by SharedCluster.
//
//   Front front(options, gpus, tenant_parts);
//   int cluster = front.Route(submission);
//
// Not thread-safe.

#ifndef ADAPTDL_SIMULATOR_FLEET_FRONT_H_
#define ADAPTDL_SIMULATOR_FLEET_FRONT_H_

#include <cstdint>
#include <vector>

#include "simulator/fleet/shared_cluster.h"
#include "simulator/fleet/submissions.h"
#include "simulator/random.h"

namespace adaptdl::simulator {

enum class Router {
  // Any cluster, in proportion to its GPUs.
  kRandom = 0,
  // One of the tenant's homes: so many clusters as hold its part of all submissions, at least one.
  kHome,
  // Of two such clusters the one with fewer unfinished jobs by its GPUs.
  kTwoChoices,
  // Of two of the tenant's homes, which are four at least, the one with fewer.
  kShard,
};

struct FrontOptions {
  Router router = Router::kTwoChoices;
  // At least 1.
  int replicas = 8;
  // Time between two reports of a cluster, in seconds. Greater than 0.
  double report_seconds = 60;
  uint64_t seed = 1;
};

class Front {
 public:
  // `gpus`: by cluster, in reference GPUs; not empty. `tenant_parts`: of all submissions, by tenant.
  Front(const FrontOptions& options, const std::vector<double>& gpus,
        const std::vector<double>& tenant_parts);

  // The cluster that has the job from now on. REQUIRES: submissions come in order of time.
  int Route(const Submission& submission);
  // Waits for the end of all jobs.
  void Drain();

  const std::vector<SharedCluster>& clusters() const { return clusters_; }
  // The clusters that the tenant's jobs may come to, as far as the router goes by homes; not empty.
  std::vector<int> Homes(int tenant) const;

 private:
  // What the replicas know of a cluster.
  struct Known {
    // The number of its last report, and what that said.
    int64_t report = -1;
    int unfinished = 0;
    // By replica, since the report.
    std::vector<int> sent;
  };

  int HomeCount(int tenant) const;
  int Home(int tenant, int index) const;
  // One of all clusters, in proportion to their GPUs.
  int AtPoint(double uniform) const;
  int AnyHome(int tenant);
  // The one that has less to do, as far as the replica knows.
  int LessLoaded(int a, int b, int replica, double now);
  double Load(int cluster, int replica, double now);
  // Takes up the report that was due last.
  void Hear(int cluster, double now);

  const FrontOptions options_;
  const int least_homes_;
  std::vector<double> cumulative_gpus_;  // parts
  std::vector<double> tenant_parts_;
  std::vector<SharedCluster> clusters_;
  std::vector<Known> known_;
  RandomStream random_;
};

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_SIMULATOR_FLEET_FRONT_H_
