#include "libs/dashboard/job_json.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace adaptdl::dashboard {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

v1::Job RunningJob() {
  v1::Job job;
  job.set_namespace_("default");
  job.set_name("job");
  job.mutable_spec()->set_max_replicas(4);
  auto* variable = job.mutable_spec()->mutable_template_()->add_env();
  variable->set_name("PASSWORD");
  variable->set_value("hunter2");
  v1::JobStatus* status = job.mutable_status();
  status->set_phase(v1::JOB_PHASE_RUNNING);
  for (const char* node : {"a", "a", "b"}) status->add_allocation(node);
  return job;
}

TEST(JobJsonTest, ARowIsSmallAndTellsNoSecrets) {
  v1::Job job = RunningJob();
  job.mutable_status()->mutable_progress()->set_throughput(100);
  job.mutable_status()->mutable_progress()->set_efficiency(0.5);
  auto* loss = job.mutable_status()->mutable_progress()->add_metrics();
  loss->set_name("loss");
  loss->set_value(std::nan(""));
  const nlohmann::json row = JobRow(job);
  EXPECT_EQ(row.at("phase"), "RUNNING");
  EXPECT_EQ(row.at("replicas"), 3);
  EXPECT_EQ(row.at("nodes").at("a"), 2);
  EXPECT_EQ(row.at("progress").at("goodput"), 50);
  // What is not finite is unknown: there is no such number in JSON.
  EXPECT_FALSE(row.at("progress").contains("metrics"));
  EXPECT_THAT(ToText(JobDetails(job)), Not(HasSubstr("hunter2")));
}

TEST(JobJsonTest, TextsThatAreNoUtf8AreMended) {
  v1::Job job = RunningJob();
  job.set_name("\xff");
  EXPECT_THAT(ToText(JobRow(job)), HasSubstr("\xef\xbf\xbd"));
}

TEST(JobJsonTest, TheCurveComesFromTheJobsOwnModel) {
  v1::Job job = RunningJob();
  EXPECT_TRUE(GoodputCurve(job).contains("reason"));
  v1::Hints* hints = job.mutable_status()->mutable_hints();
  hints->set_init_batch_size(64);
  hints->set_max_batch_size(1024);
  hints->set_max_local_batch_size(256);
  v1::PerfParams* perf = hints->mutable_perf_params();
  perf->set_alpha_c(0.01);
  perf->set_beta_c(0.001);
  perf->set_alpha_n(0.5);
  perf->set_beta_n(0.5);
  perf->set_alpha_r(0.001);
  perf->set_beta_r(0.0001);
  perf->set_gamma(1);
  const nlohmann::json curve = GoodputCurve(job);
  ASSERT_EQ(curve.at("points").size(), 4);
  EXPECT_EQ(curve.at("best"), 4);
  // One replica is the same either way; of more, those that share a node are faster here.
  EXPECT_EQ(curve.at("points")[0].at("oneNode"), curve.at("points")[0].at("spread"));
  EXPECT_GT(curve.at("points")[3].at("oneNode"), curve.at("points")[3].at("spread"));
  perf->set_gamma(99);
  EXPECT_TRUE(GoodputCurve(job).contains("reason"));
}

}  // namespace
}  // namespace adaptdl::dashboard
