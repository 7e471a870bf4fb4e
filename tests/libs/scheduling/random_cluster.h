// Random clusters for property tests.

#ifndef ADAPTDL_TESTS_LIBS_SCHEDULING_RANDOM_CLUSTER_H_
#define ADAPTDL_TESTS_LIBS_SCHEDULING_RANDOM_CLUSTER_H_

#include <algorithm>
#include <map>
#include <random>
#include <string>

#include "libs/scheduling/policy.h"
#include "tests/libs/scheduling/views.h"

namespace adaptdl::scheduling {

class RandomCluster {
 public:
  // `sizes`: jobs may have certain sizes only.
  explicit RandomCluster(uint64_t seed, bool sizes = false) : engine_(seed), sizes_(sizes) {}

  int Int(int low, int high) { return std::uniform_int_distribution<int>(low, high)(engine_); }
  bool Chance(double p) { return std::bernoulli_distribution(p)(engine_); }
  double Real(double low, double high) { return std::uniform_real_distribution<double>(low, high)(engine_); }

  ClusterView Make() {
    ClusterView view;
    const int nodes = Int(0, 12);
    for (int i = 0; i < nodes; ++i) {
      NodeInfo node = Node("node-" + std::to_string(100 + i), Int(1, 8) * 1000, Chance(0.4) ? Int(1, 4) : 0);
      node.draining = Chance(0.1);
      node.preemptible = Chance(0.2);
      view.nodes.push_back(node);
    }
    const int jobs = Int(0, 16);
    for (int i = 0; i < jobs; ++i) view.jobs.push_back(RandomJob(i));
    // Some hold replicas from before, on nodes that may be gone.
    for (JobInfo& job : view.jobs) {
      if (nodes == 0 || !Chance(0.5)) continue;
      const int held = job.allowed_replicas.empty()
                           ? Int(job.min_replicas, job.max_replicas)
                           : job.allowed_replicas[Int(0, static_cast<int>(job.allowed_replicas.size()) - 1)];
      for (int i = 0; i < held; ++i) {
        job.allocation.push_back(Chance(0.03) ? "gone" : view.nodes[Int(0, nodes - 1)].id);
      }
    }
    DropWhatDoesNotFit(&view);
    return view;
  }

  JobInfo RandomJob(int index) {
    JobInfo job = Job("ns/job-" + std::to_string(index));
    job.request = {{kCpu, Int(1, 6) * 500}};
    if (Chance(0.3)) job.request[kGpu] = Int(1, 2);
    if (Chance(0.3)) job.request[kMemory] = int64_t{Int(1, 40)} << 30;
    job.min_replicas = Chance(0.3) ? Int(1, 5) : 1;
    job.max_replicas = job.min_replicas + (Chance(0.7) ? Int(0, 12) : 0);
    job.preemptible = !Chance(0.15);
    for (int size = job.min_replicas; size <= job.max_replicas && sizes_; ++size) {
      if (Chance(0.4) || size == job.max_replicas) job.allowed_replicas.push_back(size);
    }
    if (Chance(0.6)) {
      job.done_seconds = Real(0, 1e5);
    } else {
      job.elastic = Chance(0.5);
      job.run_seconds = Chance(0.3) ? Real(0, 1000) : 0;
    }
    if (Chance(0.2)) job.unsaved_seconds = Real(0, 1e4);
    job.speedup = Chance(0.2) ? Linear() : Scaling(Real(0, 0.6), 20, Real(0, 0.3));
    return job;
  }

  // The supervisor never stores more than a node has.
  static void DropWhatDoesNotFit(ClusterView* view) {
    std::map<std::string, Resources> left;
    for (const NodeInfo& node : view->nodes) left[node.id] = node.capacity;
    for (JobInfo& job : view->jobs) {
      std::map<std::string, Resources> after = left;
      bool fits = true;
      for (const std::string& node : job.allocation) {
        if (node == "gone") continue;
        for (const auto& [name, amount] : job.request) fits &= (after[node][name] -= amount) >= 0;
      }
      if (fits) {
        left = after;
      } else {
        job.allocation.clear();
      }
    }
  }

 private:
  std::mt19937_64 engine_;
  const bool sizes_;
};

// Whether the job must stay as it is.
inline bool Pinned(const ClusterView& view, const JobInfo& job) {
  if (job.preemptible || job.allocation.empty()) return false;
  for (const std::string& node : job.allocation) {
    const bool known = std::any_of(view.nodes.begin(), view.nodes.end(),
                                   [&](const NodeInfo& info) { return info.id == node; });
    if (!known) return false;
  }
  return true;
}

}  // namespace adaptdl::scheduling

#endif  // ADAPTDL_TESTS_LIBS_SCHEDULING_RANDOM_CLUSTER_H_
