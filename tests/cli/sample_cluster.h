// Jobs and nodes of all kinds, to be shown. Plain functions.

#ifndef ADAPTDL_TESTS_CLI_SAMPLE_CLUSTER_H_
#define ADAPTDL_TESTS_CLI_SAMPLE_CLUSTER_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "adaptdl/v1/job_service.pb.h"
#include "adaptdl/v1/node_service.pb.h"
#include "libs/messages/proto_time.h"

namespace adaptdl::cli {

inline absl::Time SampleNow() {
  return absl::FromCivil(absl::CivilSecond(2026, 11, 21, 1, 2, 3), absl::UTCTimeZone());
}

inline v1::Job SampleJob(const std::string& name, v1::JobPhase phase, int replicas) {
  v1::Job job;
  job.set_namespace_("default");
  job.set_name(name);
  job.set_uid(absl::StrCat("uid-", name));
  v1::JobStatus* status = job.mutable_status();
  status->set_phase(phase);
  *status->mutable_submit_time() = messages::ToProto(SampleNow() - absl::Hours(3));
  for (int i = 0; i < replicas; ++i) status->add_allocation(absl::StrCat("gpu-node-", i / 2));
  if (replicas > 0) *status->mutable_start_time() = messages::ToProto(SampleNow() - absl::Hours(2));
  return job;
}

inline v1::Job TrainingJob() {
  v1::Job job = SampleJob("resnet50-imagenet", v1::JOB_PHASE_RUNNING, 4);
  job.mutable_spec()->set_max_replicas(8);
  job.mutable_spec()->set_priority(5);
  v1::JobStatus* status = job.mutable_status();
  *status->mutable_estimated_completion_time() = messages::ToProto(SampleNow() + absl::Minutes(41));
  status->set_rescales(2);
  status->set_cost(12.345);
  status->set_allocation_reason("a fifth replica would bring less than it costs others");
  status->add_allocation_explanation("4 replicas bring 3.1 times the goodput of one.");
  v1::TrainingProgress* progress = status->mutable_progress();
  progress->set_optimizer_steps(12'345);
  progress->set_epoch(3);
  progress->set_total_epochs(10);
  progress->set_fraction(0.372);
  progress->set_total_batch_size(1024);
  progress->set_local_batch_size(128);
  progress->set_accumulation_steps(1);
  progress->set_throughput(2345.6);
  progress->set_gain(3.2);
  progress->set_efficiency(0.8);
  progress->set_gradient_noise_scale(5321);
  progress->set_learning_rate_factor(2.83);
  progress->mutable_step_times()->set_compute(0.3);
  progress->mutable_step_times()->set_sync(0.1);
  progress->mutable_step_times()->set_data(0.02);
  v1::ReportedMetric* loss = progress->add_metrics();
  loss->set_name("loss");
  loss->set_value(1.2345678);
  loss->set_step(12'340);
  return job;
}

inline v1::ListJobsResponse SampleJobs() {
  v1::ListJobsResponse jobs;
  *jobs.add_jobs() = TrainingJob();
  v1::Job waiting = SampleJob("a-job-with-a-name-that-is-quite-long-for-any-table", v1::JOB_PHASE_PENDING, 0);
  waiting.mutable_status()->set_reason("Unschedulable");
  waiting.mutable_status()->set_message("no node offers 8 GPUs");
  *jobs.add_jobs() = waiting;
  // Whatever a program reports.
  v1::Job odd = SampleJob("bert", v1::JOB_PHASE_RESCALING, 1);
  odd.mutable_status()->set_reason("東京の再編成");
  odd.mutable_status()->set_restarts(17);
  odd.mutable_status()->set_failures(3);
  *jobs.add_jobs() = odd;
  v1::Job ended = SampleJob("mnist-7", v1::JOB_PHASE_FAILED, 1);
  ended.mutable_status()->clear_allocation();
  ended.mutable_status()->set_reason("MaxRestartsExceeded");
  ended.mutable_status()->set_message("replica 0 exited with code 1");
  *ended.mutable_status()->mutable_completion_time() = messages::ToProto(SampleNow() - absl::Minutes(75));
  *jobs.add_jobs() = ended;
  return jobs;
}

inline v1::ListNodesResponse SampleNodes() {
  v1::ListNodesResponse nodes;
  for (int i = 0; i < 3; ++i) {
    v1::Node* node = nodes.add_nodes();
    node->set_node_id(absl::StrCat("gpu-node-", i));
    node->mutable_capacity()->set_cpu_millis(16'000);
    node->mutable_capacity()->set_gpus(2);
    node->mutable_status()->set_phase(i == 2 ? v1::NODE_PHASE_LOST : v1::NODE_PHASE_READY);
    node->mutable_status()->mutable_allocated()->set_cpu_millis(4'500);
    node->mutable_status()->mutable_allocated()->set_gpus(2 - i);
    if (i != 0) continue;
    v1::MachineUse* use = node->mutable_status()->mutable_use();
    use->set_cpus(8);
    use->set_memory_bytes(int64_t{12} << 30);
    use->set_memory_total_bytes(int64_t{64} << 30);
    use->add_gpus()->set_utilization(0.9);
    use->add_gpus()->set_utilization(0.5);
  }
  return nodes;
}

}  // namespace adaptdl::cli

#endif  // ADAPTDL_TESTS_CLI_SAMPLE_CLUSTER_H_
