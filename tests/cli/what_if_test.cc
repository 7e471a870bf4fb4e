// What-if by the real program, against a supervisor made up in the test; and the conversion by itself.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "cli/history.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/cli/command_fixture.h"

namespace adaptdl::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kBegin = 1'700'000'000;

v1::Node GpuNode(const std::string& name) {
  v1::Node node;
  node.set_node_id(name);
  node.set_gpu_type("Tesla T4");
  node.mutable_capacity()->set_cpu_millis(16'000);
  node.mutable_capacity()->set_gpus(4);
  node.mutable_status()->set_phase(v1::NODE_PHASE_READY);
  return node;
}

// One that trained from `begin` seconds on for an hour on one GPU.
v1::Job TrainedJob(const std::string& name, int64_t begin) {
  v1::Job job;
  job.set_namespace_("default");
  job.set_name(name);
  job.set_uid("uid-" + name);
  job.mutable_spec()->mutable_template_()->mutable_resources()->set_gpus(1);
  v1::JobStatus* status = job.mutable_status();
  status->set_phase(v1::JOB_PHASE_SUCCEEDED);
  status->mutable_submit_time()->set_seconds(kBegin + begin);
  status->mutable_start_time()->set_seconds(kBegin + begin + 60);
  status->mutable_completion_time()->set_seconds(kBegin + begin + 3660);
  status->mutable_rescale_duration()->set_seconds(20);
  status->set_restarts(1);
  status->set_rescales(1);
  v1::Hints* hints = status->mutable_hints();
  hints->set_init_batch_size(128);
  hints->set_max_batch_size(1024);
  hints->set_min_local_batch_size(16);
  hints->set_max_local_batch_size(256);
  hints->set_gradient_accumulation(true);
  hints->set_max_profiled_replicas(4);
  v1::PerfParams* perf = hints->mutable_perf_params();
  perf->set_alpha_c(0.05);
  perf->set_beta_c(0.005);
  perf->set_alpha_n(0.1);
  perf->set_alpha_r(0.02);
  perf->set_gamma(1.5);
  hints->mutable_grad_params()->set_norm(1);
  hints->mutable_grad_params()->set_var(3);
  status->mutable_progress()->set_scale_invariant_steps(10'000);
  return job;
}

v1::Event Resized(const std::string& job, int64_t second, int replicas) {
  v1::Event event;
  event.set_id(second + 1);
  event.set_namespace_("default");
  event.set_job(job);
  event.set_job_uid("uid-" + job);
  event.mutable_time()->set_seconds(kBegin + second);
  event.set_replicas(replicas);
  return event;
}

class WhatIfTest : public CommandTest {
 protected:
  // Two nodes, four jobs that trained, and one that never told anything.
  void FillCluster() {
    supervisor_.AddNode(GpuNode("n0"));
    supervisor_.AddNode(GpuNode("n1"));
    for (int i = 0; i < 4; ++i) {
      const std::string name = absl::StrCat("job-", i);
      supervisor_.AddJob(TrainedJob(name, 100 * i));
      supervisor_.AddEvent(Resized(name, 100 * i + 60, 1));
    }
    supervisor_.AddJob(EndedJob("plain", v1::JOB_PHASE_SUCCEEDED));
  }
};

TEST_F(WhatIfTest, MoreNodesMakeJobsFaster) {
  FillCluster();
  const ProgramResult result = Run({"what-if", "--add-nodes", "2xT4x4", "--price", "t4=2.5", "-o", "json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const nlohmann::json json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["unit"], "GPU");
  EXPECT_EQ(json["recorded"]["jobs"], 4);
  EXPECT_EQ(json["recorded"]["meanWaitSeconds"], 60);
  EXPECT_EQ(json["recorded"]["meanCompletionSeconds"], 3660);
  EXPECT_EQ(json["recorded"]["usedHours"], 4);
  EXPECT_EQ(json["recorded"]["restartsPerJob"], 2);
  EXPECT_EQ(json["asItIs"]["jobs"], 4);
  EXPECT_GT(json["asItIs"]["meanCompletionSeconds"], json["changed"]["meanCompletionSeconds"]);
  const double hours = json["changed"]["makespanSeconds"].get<double>() / 3600;
  EXPECT_NEAR(json["changed"]["cost"].get<double>(), 4 * 2.5 * hours, 1e-9);
  EXPECT_NEAR(json["changed"]["offeredHours"].get<double>(), 16 * hours, 1e-9);
  ASSERT_EQ(json["leftOut"].size(), 1u);
  EXPECT_EQ(json["leftOut"][0]["job"], "default/plain");
  EXPECT_THAT(json["leftOut"][0]["reason"].get<std::string>(), HasSubstr("measured itself"));
}

TEST_F(WhatIfTest, PrintsATableWithWhatReallyHappenedBesideIt) {
  FillCluster();
  const ProgramResult result = Run({"what-if", "--remove-nodes", "n1", "--policy", "pollux"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("RECORDED   AS IT IS   CHANGED"));
  EXPECT_THAT(result.out, HasSubstr("Completion time, mean            1h01m"));
  EXPECT_THAT(result.out, HasSubstr("GPU-hours used                   4.00"));
  EXPECT_THAT(result.out, HasSubstr("The jobs that have ended took 1h01m on average; by the model"));
  EXPECT_THAT(result.out, HasSubstr("LEFT OUT        BECAUSE\ndefault/plain   "));
  EXPECT_THAT(result.err, IsEmpty());
}

TEST_F(WhatIfTest, AHistoryCanBeSavedAndAskedLater) {
  FillCluster();
  const std::string file = folder_.path() + "/history.json";
  const ProgramResult saved = Run({"what-if", "--save-history", file});
  ASSERT_EQ(saved.code, 0) << saved.err;
  EXPECT_THAT(saved.err, HasSubstr("wrote 5 jobs to"));
  const std::vector<std::string> question = {"what-if", "--add-nodes", "1xT4x4", "-o", "json"};
  std::vector<std::string> later = question;
  later.insert(later.end(), {"--history", file, "--supervisor", "127.0.0.1:1"});
  EXPECT_EQ(Run(later).out, Run(question).out);
}

TEST_F(WhatIfTest, TooLittleHistoryIsAnError) {
  supervisor_.AddNode(GpuNode("n0"));
  supervisor_.AddJob(EndedJob("plain", v1::JOB_PHASE_SUCCEEDED));
  const ProgramResult result = Run({"what-if", "--add-nodes", "1xT4x4"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("no job of the history can be replayed: default/plain: "));
  EXPECT_THAT(result.out, IsEmpty());
  FillCluster();
  // All of it is years ago.
  EXPECT_THAT(Run({"what-if", "--add-nodes", "1xT4x4", "--since", "7d"}).err,
              HasSubstr("no job of the history can be replayed: there is none"));
}

TEST_F(WhatIfTest, WrongUseIsNamed) {
  FillCluster();
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"what-if"}, "say what is to change"},
      {{"what-if", "--add-nodes", "four"}, "\"four\" is no group of nodes"},
      {{"what-if", "--policy", "magic"}, "there is no policy \"magic\""},
      {{"what-if", "--policy", "pollux", "--price", "T4"}, "write KEY=VALUE"},
      {{"what-if", "--policy", "pollux", "--price", "T4=much"}, "\"much\" is no number"},
      {{"what-if", "--policy", "pollux", "--since", "a while"}, "\"a while\" is no time span"},
  };
  for (const auto& [arguments, text] : cases) {
    const ProgramResult result = Run(arguments);
    EXPECT_EQ(result.code, 2) << text;
    EXPECT_THAT(result.err, HasSubstr(text));
  }
}

TEST(ToHistory, TakesWhatCountsOfJobsAndNodes) {
  v1::ListNodesResponse nodes;
  *nodes.add_nodes() = GpuNode("n0");
  *nodes.add_nodes() = GpuNode("away");
  nodes.mutable_nodes(1)->mutable_status()->set_phase(v1::NODE_PHASE_LOST);
  *nodes.add_nodes() = GpuNode("plain");
  nodes.mutable_nodes(2)->clear_gpu_type();
  nodes.mutable_nodes(2)->mutable_capacity()->clear_gpus();
  v1::ListJobsResponse jobs;
  *jobs.add_jobs() = TrainedJob("old", 0);
  *jobs.add_jobs() = TrainedJob("new", 1000);
  v1::Job& job = *jobs.mutable_jobs(1);
  job.mutable_spec()->set_min_replicas(2);
  job.mutable_spec()->set_max_replicas(4);
  job.mutable_spec()->set_priority(3);
  job.mutable_spec()->set_preemptible(false);
  job.mutable_status()->clear_completion_time();
  job.mutable_status()->set_phase(v1::JOB_PHASE_RUNNING);
  job.mutable_status()->mutable_progress()->set_total_scale_invariant_steps(20'000);
  v1::ListEventsResponse events;
  *events.add_events() = Resized("new", 1100, 2);
  *events.add_events() = Resized("new", 1200, 4);
  const absl::Time begin = absl::FromUnixSeconds(kBegin);
  const simulator::History history =
      ToHistory(jobs, events, nodes, begin + absl::Seconds(500), begin + absl::Seconds(1500));
  ASSERT_EQ(history.nodes.size(), 2u);
  EXPECT_EQ(history.nodes[0].gpu_type, "Tesla T4");
  EXPECT_EQ(history.nodes[0].capacity.at("gpu"), 4);
  EXPECT_EQ(history.nodes[1].gpu_type, "cpu");
  ASSERT_EQ(history.jobs.size(), 1u);
  const simulator::RecordedJob& record = history.jobs[0];
  EXPECT_EQ(record.name, "default/new");
  EXPECT_EQ(record.submitted, kBegin + 1000);
  EXPECT_EQ(record.started, kBegin + 1060);
  EXPECT_FALSE(record.completed.has_value());
  EXPECT_EQ(record.replica_seconds, 100 * 2 + 300 * 4);
  EXPECT_EQ(record.end, simulator::RecordedEnd::kNotYet);
  EXPECT_EQ(record.steps_done, 10'000);
  EXPECT_EQ(record.steps_total, 20'000);
  EXPECT_EQ(record.rescale_seconds, 20);
  EXPECT_EQ(record.max_local, 256);
  EXPECT_EQ(record.perf.at("Tesla T4").beta_c, 0.005);
  EXPECT_EQ(record.gradient->var, 3);
  EXPECT_EQ(record.demand.min_replicas, 2);
  EXPECT_EQ(record.demand.max_replicas, 4);
  EXPECT_EQ(record.demand.priority, 3);
  EXPECT_FALSE(record.demand.preemptible);
  EXPECT_EQ(record.demand.request.at("gpu"), 1);
}

TEST(ToHistory, KeepsTheModelsOfAllGpuTypes) {
  v1::ListNodesResponse nodes;
  *nodes.add_nodes() = GpuNode("n0");
  v1::ListJobsResponse jobs;
  *jobs.add_jobs() = TrainedJob("a", 0);
  v1::Hints* hints = jobs.mutable_jobs(0)->mutable_status()->mutable_hints();
  for (const char* type : {"A100", "Tesla T4"}) {
    v1::GpuTypePerfParams* typed = hints->add_perf_params_by_gpu_type();
    typed->set_gpu_type(type);
    *typed->mutable_perf_params() = hints->perf_params();
  }
  hints->mutable_perf_params_by_gpu_type(0)->mutable_perf_params()->set_beta_c(0.001);
  const simulator::History history =
      ToHistory(jobs, {}, nodes, absl::InfinitePast(), absl::FromUnixSeconds(kBegin));
  ASSERT_EQ(history.jobs.size(), 1u);
  EXPECT_EQ(history.jobs[0].perf.size(), 2u);
  EXPECT_EQ(history.jobs[0].perf.at("A100").beta_c, 0.001);
  EXPECT_EQ(history.jobs[0].perf.at("Tesla T4").beta_c, 0.005);
}

}  // namespace
}  // namespace adaptdl::cli
