// What is submitted to a made-up fleet.

#include "simulator/fleet/submissions.h"

#include <cmath>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "libs/goodput/model.h"
#include "libs/goodput/optimize.h"
#include "simulator/fleet/model_kinds.h"

namespace adaptdl::simulator {
namespace {

constexpr double kHour = 3600;
constexpr double kWeek = 7 * 24 * kHour;

std::vector<Submission> Until(double end, SubmissionOptions options) {
  SubmissionStream stream(options);
  std::vector<Submission> submissions;
  for (Submission next = stream.Next(); next.time < end; next = stream.Next()) submissions.push_back(next);
  return submissions;
}

TEST(Submissions, TheSameSeedGivesTheSameJobs) {
  const auto a = Until(kHour, {.jobs_per_hour = 500, .tenants = 7, .seed = 3});
  const auto b = Until(kHour, {.jobs_per_hour = 500, .tenants = 7, .seed = 3});
  const auto other = Until(kHour, {.jobs_per_hour = 500, .tenants = 7, .seed = 4});
  ASSERT_EQ(a.size(), b.size());
  ASSERT_GT(a.size(), 100);
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].time, b[i].time);
    EXPECT_EQ(a[i].number, static_cast<int64_t>(i));
    EXPECT_EQ(a[i].tenant, b[i].tenant);
    EXPECT_EQ(a[i].kind, b[i].kind);
    EXPECT_EQ(a[i].solo_seconds, b[i].solo_seconds);
    EXPECT_GE(a[i].time, i > 0 ? a[i - 1].time : 0);
  }
  EXPECT_NE(a[0].time, other[0].time);
}

TEST(Submissions, AWeekHasTheMeanRateAndTheMeanWork) {
  const auto jobs = Until(kWeek, {.jobs_per_hour = 500, .tenants = 10, .seed = 1});
  // Four deviations of a Poisson number.
  EXPECT_NEAR(static_cast<double>(jobs.size()), 84000, 4 * std::sqrt(84000.0));
  double work = 0;
  for (const Submission& job : jobs) work += job.solo_seconds;
  EXPECT_NEAR(work / static_cast<double>(jobs.size()) / MeanSoloSeconds(), 1, 0.1);
}

TEST(Submissions, TheWaveIsOneInTheMeanOfAWeek) {
  double sum = 0;
  constexpr int kSteps = 7 * 24 * 60;
  for (int minute = 0; minute < kSteps; ++minute) sum += Wave((minute + 0.5) * 60);
  EXPECT_NEAR(sum / kSteps, 1, 1e-9);
  EXPECT_GT(Wave(15 * kHour), Wave(3 * kHour));
  EXPECT_DOUBLE_EQ(Wave((5 * 24 + 15) * kHour), 0.6 * Wave(15 * kHour));
  EXPECT_DOUBLE_EQ(Wave(kWeek + 15 * kHour), Wave(15 * kHour));
}

TEST(Submissions, TenantsFollowZipfAndWorkIsBounded) {
  SubmissionStream stream({.jobs_per_hour = 100, .tenants = 4, .seed = 1});
  double sum = 0;
  for (int tenant = 0; tenant < 4; ++tenant) sum += stream.TenantPart(tenant);
  EXPECT_NEAR(sum, 1, 1e-12);
  EXPECT_NEAR(stream.TenantPart(0) / stream.TenantPart(3), 4, 1e-9);
  std::vector<int> count(4, 0);
  for (int i = 0; i < 20000; ++i) {
    const Submission job = stream.Next();
    ++count.at(job.tenant);
    const double median = ModelKinds()[job.kind].median_hours * kHour;
    EXPECT_LE(job.solo_seconds, median * std::exp(3 * 1.6) * (1 + 1e-9));
    EXPECT_GE(job.solo_seconds, median * std::exp(-3 * 1.6) * (1 - 1e-9));
  }
  EXPECT_NEAR(count[0] / 20000.0, stream.TenantPart(0), 0.02);
}

TEST(ModelKinds, TheirPartsAddUpAndTheirModelsAreValid) {
  double parts = 0;
  for (const ModelKind& kind : ModelKinds()) {
    parts += kind.part;
    EXPECT_TRUE(goodput::Validate(kind.perf).ok()) << kind.name;
    const goodput::BatchLimits limits{kind.max_batch_size, 1, kind.max_local, true};
    EXPECT_TRUE(goodput::Validate(limits, kind.init_batch_size).ok()) << kind.name;
  }
  EXPECT_NEAR(parts, 1, 1e-12);
}

TEST(ModelKinds, AJobIsAsLongAsItsSubmissionSays) {
  for (int kind = 0; kind < static_cast<int>(ModelKinds().size()); ++kind) {
    const Submission submission{.time = 5, .number = 9, .tenant = 2, .kind = kind, .solo_seconds = 7200};
    const WorkloadJob job = MakeJob(submission, 1, {"a100", "h100"});
    EXPECT_EQ(job.name, std::string(ModelKinds()[kind].name) + "-9");
    EXPECT_EQ(job.demand.name_space, "tenant-2");
    EXPECT_EQ(job.submitted, 5);
    const Application& app = *job.application;
    ASSERT_EQ(app.step_times.size(), 2);
    EXPECT_NEAR(app.step_times[1].single_gpu_throughput() / app.step_times[0].single_gpu_throughput(),
                GpuSpeed("h100"), 1e-6);
    // At its best batch size on one reference GPU: the speed of the engine, sample by sample.
    double fastest = 0;
    for (int64_t steps = 0; steps < 1024; ++steps) {
      for (int64_t local = 1; local <= app.max_local[0]; local = local < 16 ? local + 1 : local * 9 / 8) {
        const int64_t batch = local * (steps + 1);
        if (batch < app.init_batch_size() || batch > app.max_batch_size()) continue;
        const goodput::GradParams gradient = app.curve.Gradient(batch, 0);
        const double scale = static_cast<double>(batch) / static_cast<double>(app.init_batch_size());
        const double gain = (gradient.var + gradient.sqr) / (gradient.var / scale + gradient.sqr);
        const double time = app.step_times[0].Resolve({1}).At(local)->step;
        fastest = std::max(fastest, gain / (time * static_cast<double>(steps + 1)));
      }
    }
    EXPECT_NEAR(app.curve.ProgressAfter(0) / fastest / 7200, 1, 0.02) << ModelKinds()[kind].name;
  }
}

TEST(ModelKinds, JobsOfAKindDiffer) {
  const auto job = [](int64_t number) {
    return MakeJob({.time = 0, .number = number, .tenant = 0, .kind = 0, .solo_seconds = 60}, 1, {"a100"});
  };
  const double a = job(1).application->step_times[0].single_gpu_throughput();
  const double b = job(2).application->step_times[0].single_gpu_throughput();
  EXPECT_NE(a, b);
  EXPECT_LE(std::max(a, b) / std::min(a, b), 1.5 * 1.5);
  EXPECT_EQ(a, job(1).application->step_times[0].single_gpu_throughput());
}

}  // namespace
}  // namespace adaptdl::simulator
