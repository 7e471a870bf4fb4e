// Jobs over time: "adaptdl history" and "adaptdl timeline".

#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/cli/command_fixture.h"

namespace adaptdl::cli {
namespace {

using ::testing::HasSubstr;

class HistoryCommandTest : public CommandTest {
 protected:
  static v1::GetJobHistoryResponse TwoPoints() {
    v1::GetJobHistoryResponse history;
    v1::HistoryPoint* waits = history.add_points();
    waits->mutable_begin()->set_seconds(1'700'000'000);
    waits->mutable_end()->set_seconds(1'700'000'060);
    waits->set_fraction(-1);
    v1::HistoryPoint* trains = history.add_points();
    trains->mutable_begin()->set_seconds(1'700'000'060);
    trains->mutable_end()->set_seconds(1'700'000'062);
    trains->set_replicas(2.5);
    trains->set_total_batch_size(512);
    trains->set_learning_rate_factor(1.875);
    trains->set_gradient_noise_scale(1234.5678);
    trains->set_throughput(2000);
    trains->set_goodput(1500);
    trains->set_efficiency(0.75);
    trains->set_fraction(0.125);
    trains->mutable_step_times()->set_compute(0.25);
    v1::ReportedMetric* loss = trains->add_metrics();
    loss->set_name("loss");
    loss->set_value(0.1);
    v1::ReportedMetric* other = trains->add_metrics();
    other->set_name("grad/norm");
    other->set_value(std::numeric_limits<double>::infinity());
    return history;
  }
};

TEST_F(HistoryCommandTest, ShowsATable) {
  supervisor_.history().SetHistory(TwoPoints());
  const ProgramResult result = Run({"history", "team/a", "--points", "7"});
  EXPECT_EQ(result.out,
            "TIME(UTC)         REPLICAS   BATCH   LR FACTOR   NOISE   GOODPUT   DONE    LOSS\n"
            "Nov-14 22:14:20   0          -       -           -       -         -       -\n"
            "Nov-14 22:14:22   2.50       512     1.875       1235    1500      12.5%   0.1\n")
      << result.err;
  EXPECT_EQ(supervisor_.history().last_request().namespace_(), "team");
  EXPECT_EQ(supervisor_.history().last_request().name(), "a");
  EXPECT_EQ(supervisor_.history().last_request().max_points(), 7);
}

TEST_F(HistoryCommandTest, WritesAllFiguresForPrograms) {
  supervisor_.history().SetHistory(TwoPoints());
  EXPECT_EQ(
      Run({"history", "a", "-o", "csv"}).out,
      "begin,end,replicas,total_batch_size,local_batch_size,accumulation_steps,throughput,goodput,efficiency,"
      "gradient_noise_scale,learning_rate_factor,compute_seconds,sync_seconds,data_seconds,optimizer_steps,"
      "scale_invariant_steps,fraction,epoch,metric:grad/norm,metric:loss\n"
      "2023-11-14T22:13:20+00:00,2023-11-14T22:14:20+00:00,0,,,,,,,,,,,,0,0,,0,,\n"
      "2023-11-14T22:14:20+00:00,2023-11-14T22:14:22+00:00,2.5,512,,0,2000,1500,0.75,1234.5678,1.875,0.25,0,"
      "0,0,"
      "0,0.125,0,inf,0.10000000000000001\n");
  EXPECT_EQ(supervisor_.history().last_request().max_points(), 2000);
  const nlohmann::json document = nlohmann::json::parse(Run({"history", "a", "-o", "json"}).out);
  EXPECT_EQ(document["points"][1]["goodput"], 1500);
  EXPECT_EQ(document["points"][1]["metrics"][1]["value"], "Infinity");
}

TEST_F(HistoryCommandTest, SaysWhenThereIsNone) {
  EXPECT_THAT(Run({"history", "a"}).err, HasSubstr("keeps no histories"));
  supervisor_.history().SetHistory({});
  EXPECT_THAT(Run({"history", "a"}).err, HasSubstr("nothing is known yet"));
  EXPECT_NE(Run({"history"}).code, 0);
}

TEST_F(HistoryCommandTest, DrawsTheTimelinesThatTheSupervisorKeeps) {
  v1::ListTimelinesResponse timelines;
  for (const char* name : {"a", "b"}) {
    v1::JobTimeline* timeline = timelines.add_timelines();
    timeline->set_name(name);
    timeline->mutable_submit_time()->set_seconds(1'700'000'000);
    timeline->mutable_completion_time()->set_seconds(1'700'000'004);
    for (const auto& [second, replicas] : {std::pair(0, 0), {1, 3}, {2, 3}, {3, 1}, {4, 0}}) {
      v1::AllocationChange* change = timeline->add_changes();
      change->mutable_time()->set_seconds(1'700'000'000 + second);
      change->set_replicas(replicas);
    }
  }
  supervisor_.history().SetTimelines(timelines);
  EXPECT_THAT(Run({"timeline"}).out, HasSubstr("\na  .331\nb  .331\n"));
  v1::Job job = EndedJob("a", v1::JOB_PHASE_SUCCEEDED);
  job.mutable_status()->mutable_completion_time()->set_seconds(1'700'000'004);
  supervisor_.AddJob(job);
  v1::GetJobHistoryResponse history;
  *history.mutable_changes() = timelines.timelines(0).changes();
  supervisor_.history().SetHistory(history);
  const nlohmann::json document = nlohmann::json::parse(Run({"timeline", "a", "-o", "json"}).out);
  EXPECT_EQ(document["jobs"][0]["changes"].size(), 3u) << "what changes no replicas is none";
  EXPECT_EQ(document["jobs"][0]["changes"][0]["replicas"], 3);
}

}  // namespace
}  // namespace adaptdl::cli
