// Small clusters for tests.

#ifndef ADAPTDL_TESTS_LIBS_SCHEDULING_VIEWS_H_
#define ADAPTDL_TESTS_LIBS_SCHEDULING_VIEWS_H_

#include <memory>
#include <string>
#include <vector>

#include "libs/goodput/speedup_table.h"
#include "libs/scheduling/policy.h"

namespace adaptdl::scheduling {

inline NodeInfo Node(const std::string& id, int64_t cpu_millis = 1000, int64_t gpus = 0) {
  NodeInfo node;
  node.id = id;
  node.capacity = {{kCpu, cpu_millis}, {kMemory, int64_t{64} << 30}};
  if (gpus > 0) node.capacity[kGpu] = gpus;
  return node;
}

inline std::shared_ptr<const goodput::SpeedupTable> Linear(int most = 64) {
  return std::make_shared<goodput::SpeedupTable>(goodput::SpeedupTable::Linear(most));
}

// A job whose exchange of gradients takes `network` times as long as its computation on one replica.
inline std::shared_ptr<const goodput::SpeedupTable> Scaling(double network, int most = 64,
                                                            double network_within = 0) {
  const goodput::PerfParams perf = {1e-6, 1e-3, network + 1e-6, 1e-8, network_within + 1e-6, 1e-8, 1};
  return std::make_shared<goodput::SpeedupTable>(
      goodput::SpeedupTable::Build(goodput::GoodputFunction(perf, {}, 1000), {}, most));
}

// Measured: may have up to `most` replicas of one core each.
inline JobInfo Job(const std::string& key, int most = 64,
                   std::shared_ptr<const goodput::SpeedupTable> speedup = Linear()) {
  JobInfo job;
  job.key = key;
  job.request = {{kCpu, 1000}};
  job.max_replicas = most;
  job.max_replicas_reason = "the test says so";
  job.measured_replicas = most;
  job.speedup = std::move(speedup);
  return job;
}

inline ClusterView View(std::vector<NodeInfo> nodes, std::vector<JobInfo> jobs) {
  ClusterView view;
  view.nodes = std::move(nodes);
  view.jobs = std::move(jobs);
  return view;
}

// The view after the decision was carried out.
inline ClusterView After(ClusterView view, const Decision& decision) {
  for (size_t i = 0; i < view.jobs.size(); ++i) view.jobs[i].allocation = decision.jobs[i].allocation;
  return view;
}

using Nodes = std::vector<std::string>;

}  // namespace adaptdl::scheduling

#endif  // ADAPTDL_TESTS_LIBS_SCHEDULING_VIEWS_H_
