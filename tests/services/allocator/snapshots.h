// Snapshots for tests.

#ifndef ADAPTDL_TESTS_SERVICES_ALLOCATOR_SNAPSHOTS_H_
#define ADAPTDL_TESTS_SERVICES_ALLOCATOR_SNAPSHOTS_H_

#include <string>
#include <vector>

#include "adaptdl/v1/scheduling_service.pb.h"

namespace adaptdl::allocator {

inline v1::Node MakeNode(const std::string& id, int64_t cpu_millis = 1000) {
  v1::Node node;
  node.set_node_id(id);
  node.mutable_capacity()->set_cpu_millis(cpu_millis);
  node.mutable_status()->set_phase(v1::NODE_PHASE_READY);
  return node;
}

inline v1::Job MakeJob(const std::string& name) {
  v1::Job job;
  job.set_namespace_("default");
  job.set_name(name);
  job.set_uid("uid-" + name);
  job.mutable_spec()->mutable_template_()->mutable_resources()->set_cpu_millis(1000);
  job.mutable_status()->set_phase(v1::JOB_PHASE_PENDING);
  return job;
}

// Scales well: a second replica brings 0.8.
inline v1::Hints MakeHints(int max_profiled_replicas = 1) {
  v1::Hints hints;
  hints.set_init_batch_size(64);
  hints.set_max_profiled_replicas(max_profiled_replicas);
  v1::PerfParams* perf = hints.mutable_perf_params();
  perf->set_alpha_c(0.001);
  perf->set_beta_c(0.01);
  perf->set_alpha_n(0.03);
  perf->set_beta_n(1e-8);
  perf->set_alpha_r(0.03);
  perf->set_beta_r(1e-8);
  perf->set_gamma(1);
  return hints;
}

inline v1::WatchClusterResponse Whole(const v1::ClusterSnapshot& cluster) {
  v1::WatchClusterResponse message;
  *message.mutable_snapshot() = cluster;
  return message;
}

inline std::vector<std::string> NodesOf(const v1::Job& job) {
  return {job.status().desired_allocation().begin(), job.status().desired_allocation().end()};
}

}  // namespace adaptdl::allocator

#endif  // ADAPTDL_TESTS_SERVICES_ALLOCATOR_SNAPSHOTS_H_
