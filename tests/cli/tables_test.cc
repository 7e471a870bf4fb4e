// Tables and pages at several widths, as people have looked at them, and what orders and leaves jobs.

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "cli/attempts.h"
#include "cli/description.h"
#include "cli/divergence.h"
#include "cli/explanation.h"
#include "cli/job_order.h"
#include "cli/job_table.h"
#include "cli/moment.h"
#include "cli/table.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cli/golden.h"
#include "tests/cli/sample_cluster.h"

namespace adaptdl::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kWidths[] = {40, 80, 120, 200};

TEST(TextWidthTest, CountsColumnsOfATerminal) {
  EXPECT_EQ(DisplayWidth(""), 0);
  EXPECT_EQ(DisplayWidth("größe"), 5);
  EXPECT_EQ(DisplayWidth("東京"), 4);
  EXPECT_EQ(DisplayWidth("e\xcc\x81"), 1);  // an accent of its own
  EXPECT_EQ(DisplayWidth("\xff\xfe"), 2);
  EXPECT_EQ(Shortened("größe", 5), "größe");
  EXPECT_EQ(Shortened("größer", 5), "größ…");
  EXPECT_EQ(Shortened("東京の再", 6), "東京…");
  EXPECT_EQ(Shortened("東京の再", 1), "…");
  EXPECT_EQ(Shortened("abc", 0), "");
  EXPECT_EQ(Fitted("東京", 7), "東京   ");
  EXPECT_EQ(Fitted("東京", 3), "東…");
}

TEST(TableTest, GivesWayWhereThereIsLittleRoom) {
  Table table = {{"NAME", "STATUS", "N"}, {{"a-long-name", "Running", "10"}}, {{5, 0}, {}, {0, 1}}};
  EXPECT_EQ(Render(table, false, 26), "NAME          STATUS    N\na-long-name   Running   10\n");
  EXPECT_EQ(Render(table, false, 24), "NAME         STATUS   N\na-long-name  Running  10\n");
  EXPECT_EQ(Render(table, false, 20), "NAME     STATUS   N\na-long…  Running  10\n");
  EXPECT_EQ(Render(table, false, 15), "NAME    STATUS\na-lon…  Running\n");
  // There is nothing left to give.
  EXPECT_EQ(Render(table, false, 5), "NAME   STATUS\na-lo…  Running\n");
  table.rules.clear();
  EXPECT_EQ(Render(table, false, 5), Render(table, false));
}

TEST(JobTableTest, FitsTheTerminal) {
  const v1::ListJobsResponse jobs = SampleJobs();
  std::string all;
  for (const int width : kWidths) {
    for (const bool wide : {false, true}) {
      const std::string text = Render(JobTable(jobs, {.wide = wide}, SampleNow()), false, width);
      ExpectFits(text, width);
      absl::StrAppend(&all, "ls", wide ? " -o wide" : "", ", ", width, " columns\n", text, "\n");
    }
  }
  ExpectGolden("ls", all);
}

TEST(DescriptionTest, TellsWhyAndHowItTrains) {
  v1::Job job = TrainingJob();
  v1::ListQuotasResponse quotas;
  v1::NamespaceQuota* quota = quotas.add_quotas();
  quota->set_namespace_("default");
  quota->set_gpus(4);
  ExpectGolden("describe", DescribeJob(job, {.quotas = quotas}, SampleNow(), false));
}

TEST(WhyTest, NamesEachThingThatKeepsAJobWaiting) {
  v1::Job job = SampleJob("a", v1::JOB_PHASE_PENDING, 0);
  EXPECT_THAT(
      WhyOf(job, {}, {}),
      ElementsAre(
          "the allocator has not decided on this job yet (\"adaptdl doctor\" says whether it is there)"));
  job.mutable_spec()->set_suspend(true);
  job.mutable_status()->set_allocation_reason("it is held");
  job.mutable_status()->set_message("it is held");
  EXPECT_THAT(WhyOf(job, {}, {}),
              ElementsAre("it is held: \"adaptdl resume a\" lets it go on", "it is held"));
  job.mutable_spec()->clear_suspend();
  job.mutable_status()->set_allocation_reason("waits for room for 2 replicas");
  job.mutable_status()->set_message("node n0 still runs other replicas");
  v1::GetNodePoolsResponse pools;
  v1::NodePool* pool = pools.add_pools();
  pool->set_name("spot");
  pool->add_conditions()->set_type("InsufficientCapacity");
  EXPECT_THAT(WhyOf(job, pools, {}),
              ElementsAre("waits for room for 2 replicas", "node n0 still runs other replicas",
                          "pool spot gets no nodes: there is no capacity"));
  job.mutable_status()->set_phase(v1::JOB_PHASE_FAILED);
  EXPECT_THAT(WhyOf(job, pools, {}), ElementsAre("node n0 still runs other replicas"));
  job.mutable_status()->set_phase(v1::JOB_PHASE_RUNNING);
  job.mutable_status()->set_reason("NoSteps");
  job.mutable_status()->set_message("no step for 2m");
  EXPECT_THAT(WhyOf(job, {}, {}), ElementsAre("no step for 2m (\"adaptdl logs a\" may say why; "
                                              "\"gdb -p\" or \"py-spy dump\" on its node say where)",
                                              "waits for room for 2 replicas"));
  job.mutable_status()->set_message("node n0 still runs other replicas");
  job.mutable_status()->set_phase(v1::JOB_PHASE_SUCCEEDED);
  EXPECT_THAT(WhyOf(job, pools, {}), ElementsAre());
}

v1::ListJobsResponse DivergedJobs() {
  v1::ListJobsResponse jobs;
  *jobs.add_jobs() = TrainingJob();
  *jobs.add_jobs() = TrainingJob();
  v1::Job* diverged = jobs.mutable_jobs(1);
  diverged->set_name("diverged");
  diverged->mutable_status()->mutable_progress()->mutable_metrics(0)->set_value(
      std::numeric_limits<double>::quiet_NaN());
  return jobs;
}

TEST(JobTableTest, MarksALossThatIsNoNumber) {
  const v1::ListJobsResponse jobs = DivergedJobs();
  std::string all;
  for (const bool wide : {false, true}) {
    absl::StrAppend(&all, Render(JobTable(jobs, {.wide = wide}, SampleNow()), false, 120), "\n");
  }
  absl::StrAppend(&all, DescribeJob(jobs.jobs(1), {.last_sound_step = 120}, SampleNow(), false));
  ExpectGolden("diverged", all);
  EXPECT_THAT(Render(JobTable(jobs, {.wide = true}, SampleNow()), true), HasSubstr("\x1b[31mnan!\x1b[0m"));
  EXPECT_THAT(DescribeJob(jobs.jobs(1), {.last_sound_step = -1}, SampleNow(), false),
              HasSubstr("loss is not a number at step 12340, and has never been a number\n"));
}

TEST(AttemptsTest, OnesLongForgottenCountAndChangesInPlaceDoNot) {
  v1::ListEventsResponse events;
  const auto add = [&](const char* reason, int64_t group) {
    v1::Event* event = events.add_events();
    event->set_reason(reason);
    event->set_group(group);
  };
  add("Rescaled", 6);
  add("Allocated", 7);
  add("GroupStarted", 8);
  add("Allocated", 9);
  const std::vector<Attempt> attempts = AttemptsOf(events, /*restarts=*/4);
  EXPECT_EQ(FindAttempt(attempts, 6), nullptr);
  EXPECT_EQ(FindAttempt(attempts, 7)->number, 4);
  EXPECT_EQ(FindAttempt(attempts, 8)->number, 4);
  EXPECT_EQ(FindAttempt(attempts, 12)->number, 5);
  EXPECT_EQ(FindAttempt(AttemptsOf(events, 0), 12)->number, 2) << "it was launched again in between";
  EXPECT_EQ(FindAttempt(AttemptsOf({}, 3), 1), nullptr);
}

TEST(DivergenceTest, IsDatedByTheLastLossThatWasANumber) {
  v1::GetJobHistoryResponse history;
  EXPECT_EQ(LastSoundStep(history), std::nullopt);
  const auto add = [&](double loss, int64_t step) {
    v1::ReportedMetric* metric = history.add_points()->add_metrics();
    metric->set_name("loss");
    metric->set_value(loss);
    metric->set_step(step);
  };
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  add(kNone, 10);
  EXPECT_EQ(LastSoundStep(history), -1);
  add(0.5, 20);
  EXPECT_EQ(LastSoundStep(history), std::nullopt) << "it is one again";
  history.add_points();  // It reported nothing.
  add(std::numeric_limits<double>::infinity(), 30);
  add(kNone, 40);
  EXPECT_EQ(LastSoundStep(history), 20);
}

std::vector<std::string> Sorted(const std::string& key, bool reverse = false) {
  v1::ListJobsResponse jobs = SampleJobs();
  SortJobs(key, reverse, SampleNow(), jobs.mutable_jobs());
  std::vector<std::string> names;
  for (const v1::Job& job : jobs.jobs()) names.push_back(job.name().substr(0, 5));
  return names;
}

TEST(JobOrderTest, FiguresDescendAndWhatIsNotKnownComesLast) {
  EXPECT_THAT(Sorted("submitted"), ElementsAre("resne", "a-job", "bert", "mnist"));
  EXPECT_THAT(Sorted("name"), ElementsAre("a-job", "bert", "mnist", "resne"));
  EXPECT_THAT(Sorted("name", true), ElementsAre("resne", "mnist", "bert", "a-job"));
  EXPECT_THAT(Sorted("replicas"), ElementsAre("resne", "bert", "a-job", "mnist"));
  EXPECT_THAT(Sorted("replicas", true), ElementsAre("bert", "resne", "a-job", "mnist"));
  EXPECT_THAT(Sorted("runtime"), ElementsAre("resne", "bert", "mnist", "a-job"));
  EXPECT_THAT(Sorted("restarts")[0], "bert");
  EXPECT_THAT(Sorted("cost")[0], "resne");
  for (const std::string& key : SortKeys()) EXPECT_EQ(Sorted(key).size(), 4u) << key;
}

TEST(JobOrderTest, LeavesJobsByTimeAndName) {
  v1::ListJobsResponse jobs = SampleJobs();
  KeepSince(SampleNow() - absl::Hours(1), jobs.mutable_jobs());
  EXPECT_EQ(jobs.jobs_size(), 3);
  KeepNamed("?e*t*", jobs.mutable_jobs());
  EXPECT_EQ(jobs.jobs_size(), 2);
  KeepNamed("b[a-f]rt", jobs.mutable_jobs());
  EXPECT_EQ(jobs.jobs_size(), 1);
}

TEST(MomentTest, SpansAndTimes) {
  const absl::Time now = SampleNow();
  EXPECT_EQ(*ParseMoment("--since", "90m", now), now - absl::Minutes(90));
  EXPECT_EQ(*ParseMoment("--since", "7d", now), now - absl::Hours(7 * 24));
  EXPECT_EQ(*ParseMoment("--since", "2026-11-21T02:02:03+01:00", now), now);
  EXPECT_EQ(*ParseMoment("--since", "2026-11-21 01:02:03", now), now);
  EXPECT_EQ(*ParseMoment("--since", "2026-11-21", now), now - absl::Minutes(62) - absl::Seconds(3));
  for (const char* text : {"", "yesterday", "-5m", "inf", "99999999d", "infinite-past", "5"}) {
    EXPECT_FALSE(ParseMoment("--since", text, now).ok()) << text;
  }
}

}  // namespace
}  // namespace adaptdl::cli
