#include "services/supervisor/web/job_series.h"

#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace adaptdl::supervisor {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const Moment kNow = {absl::FromUnixSeconds(1000), absl::FromUnixSeconds(5000)};

JobEntry Training(const std::string& name) {
  JobEntry entry;
  v1::Job job;
  job.set_namespace_("vision");
  job.set_name(name);
  entry.record.job = std::make_shared<const v1::Job>(job);
  entry.record.state.phase = jobs::Phase::kRunning;
  entry.record.state.allocation = {"a", "a", "b"};
  entry.record.state.rescales = 4;
  entry.record.state.restarts = 1;
  entry.record.decision.nodes = {"a", "b"};
  v1::TrainingProgress& progress = entry.record.progress.emplace();
  progress.set_optimizer_steps(1234);
  progress.set_fraction(0.25);
  progress.set_total_batch_size(96);
  progress.set_local_batch_size(32);
  progress.set_throughput(500);
  progress.set_efficiency(0.5);
  progress.mutable_step_times()->set_compute(0.125);
  v1::ReportedMetric* metric = progress.add_metrics();
  metric->set_name("loss");
  metric->set_value(1.5);
  metric = progress.add_metrics();
  metric->set_name("valid/accuracy");
  metric->set_value(std::numeric_limits<double>::quiet_NaN());
  return entry;
}

v1::Hints Hints() {
  v1::Hints hints;
  hints.set_init_batch_size(32);
  hints.set_max_batch_size(1024);
  hints.set_max_local_batch_size(256);
  v1::PerfParams* perf = hints.mutable_perf_params();
  perf->set_alpha_c(0.1);
  perf->set_beta_c(0.01);
  perf->set_alpha_n(0.2);
  perf->set_beta_n(0.01);
  perf->set_alpha_r(0.1);
  perf->set_beta_r(0.01);
  perf->set_gamma(1.5);
  return hints;
}

TEST(JobSeriesTest, SaysWhatIsKnownOfAJob) {
  JobSeries series(10);
  series.Add(Training("digits"), 1.25, kNow);
  const std::string text = series.Text();
  for (const char* line : {
           R"(adaptdl_job_phase{namespace="vision",job="digits",phase="RUNNING"} 1)",
           R"(adaptdl_job_replicas{namespace="vision",job="digits"} 3)",
           R"(adaptdl_job_desired_replicas{namespace="vision",job="digits"} 2)",
           R"(adaptdl_job_batch_size{namespace="vision",job="digits"} 96)",
           R"(adaptdl_job_goodput{namespace="vision",job="digits"} 250)",
           R"(adaptdl_job_step_seconds{namespace="vision",job="digits",part="compute"} 0.125)",
           R"(adaptdl_job_steps_total{namespace="vision",job="digits"} 1234)",
           R"(adaptdl_job_progress_ratio{namespace="vision",job="digits"} 0.25)",
           R"(adaptdl_job_metric{namespace="vision",job="digits",name="loss"} 1.5)",
           R"(adaptdl_job_metric{namespace="vision",job="digits",name="valid/accuracy"} NaN)",
           R"(adaptdl_job_rescales_total{namespace="vision",job="digits"} 4)",
           R"(adaptdl_job_restarts_total{namespace="vision",job="digits"} 1)",
           R"(adaptdl_job_cost_total{namespace="vision",job="digits"} 1.25)",
           "# TYPE adaptdl_job_steps_total counter",
           "adaptdl_jobs_without_series 0",
       }) {
    EXPECT_THAT(text, HasSubstr(absl::StrCat(line, "\n")));
  }
  // What nobody has said is not 0.
  EXPECT_THAT(text, Not(HasSubstr("adaptdl_job_gradient_noise_scale")));
  EXPECT_THAT(text, Not(HasSubstr("adaptdl_job_predicted")));
  JobSeries free(10);
  free.Add(Training("digits"), std::nullopt, kNow);
  EXPECT_THAT(free.Text(), Not(HasSubstr("adaptdl_job_cost_total")));
}

TEST(JobSeriesTest, PredictsWithTheJobsOwnModel) {
  JobEntry entry = Training("digits");
  entry.record.hints = Hints();
  JobSeries series(10);
  series.Add(entry, std::nullopt, kNow);
  const std::string text = series.Text();
  for (const int replicas : {1, 2, 16}) {
    EXPECT_THAT(text, HasSubstr(absl::StrCat(
                          "adaptdl_job_predicted_throughput{namespace=\"vision\",job=\"digits\",replicas=\"",
                          replicas, "\"} ")));
  }
  EXPECT_THAT(text, Not(HasSubstr("replicas=\"32\"")));
}

TEST(JobSeriesTest, AnEndIsSeenAndThenGone) {
  JobEntry entry = Training("digits");
  entry.record.state.phase = jobs::Phase::kSucceeded;
  entry.record.state.allocation.clear();
  entry.record.times.completed = kNow.wall - absl::Minutes(9);
  JobSeries fresh(10);
  fresh.Add(entry, std::nullopt, kNow);
  EXPECT_THAT(fresh.Text(), HasSubstr("phase=\"SUCCEEDED\"} 1\n"));
  EXPECT_THAT(fresh.Text(), Not(HasSubstr("adaptdl_job_desired_replicas")));
  entry.record.times.completed = kNow.wall - absl::Minutes(11);
  JobSeries later(10);
  later.Add(entry, std::nullopt, kNow);
  EXPECT_THAT(later.Text(), Not(HasSubstr("digits")));
}

TEST(JobSeriesTest, CountsJobsThatAreTooMany) {
  JobSeries series(2);
  for (const char* name : {"a", "b", "c", "d"}) series.Add(Training(name), std::nullopt, kNow);
  EXPECT_THAT(series.Text(), HasSubstr("adaptdl_jobs_without_series 2\n"));
  EXPECT_THAT(series.Text(), Not(HasSubstr("job=\"c\"")));
}

// As the format asks for: the samples of a family together, after its one head.
TEST(JobSeriesTest, FamiliesAreTogether) {
  JobSeries series(10);
  for (const char* name : {"a", "b"}) {
    JobEntry entry = Training(name);
    entry.record.hints = Hints();
    series.Add(entry, std::nullopt, kNow);
  }
  std::set<std::string> seen;
  std::string family;
  const std::string text = series.Text();
  const std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  for (const std::string& line : lines) {
    if (line.rfind("# HELP ", 0) == 0) {
      family = line.substr(7, line.find(' ', 7) - 7);
      EXPECT_TRUE(seen.insert(family).second) << family;
    } else if (line[0] != '#') {
      EXPECT_EQ(line.substr(0, line.find_first_of("{ ")), family);
    }
  }
  EXPECT_GT(seen.size(), 10u);
}

}  // namespace
}  // namespace adaptdl::supervisor
