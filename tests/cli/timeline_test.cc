#include "cli/timeline.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace adaptdl::cli {
namespace {

using ::testing::HasSubstr;

const absl::Time kStart = absl::FromCivil(absl::CivilSecond(2026, 11, 21, 1, 0, 0), absl::UTCTimeZone());

absl::Time At(double seconds) { return kStart + absl::Seconds(seconds); }

std::string Header(const std::string& column) {
  return absl::StrCat("from Nov-21 01:00:00 UTC, one column = ", column, ", digit = replicas, . = waiting\n");
}

TEST(TimelineTest, DrawsOneColumnPerSecond) {
  const std::vector<TimelineRow> rows = {
      {"a", At(0), At(14), {{At(1), 1}, {At(4), 0}, {At(5), 2}, {At(9), 1}}},
      {"long-name", At(6), absl::InfiniteFuture(), {{At(8), 1}}},
  };
  EXPECT_EQ(RenderTimeline(rows, At(16), 80), Header("1s") +
                                                  "a          .111.222211111\n"
                                                  "long-name        ..11111111\n"
                                                  "           0s        10s\n");
}

TEST(TimelineTest, ScalesToTheWidth) {
  const std::vector<TimelineRow> rows = {{"a", At(0), At(100), {{At(20), 3}}}};
  EXPECT_EQ(RenderTimeline(rows, At(100), 23), Header("5s") +
                                                   "a  ....3333333333333333\n"
                                                   "   0s        50s\n");
  // Whatever the width and the span, lines fit.
  for (const int width : {13, 20, 80, 200}) {
    for (const double span : {0.5, 5.0, 999.0, 86'400.0, 1e9}) {
      const std::string text = RenderTimeline({{"a", At(0), At(span), {}}}, At(span), width);
      std::vector<std::string> lines = absl::StrSplit(text, '\n');
      lines.erase(lines.begin());
      for (const std::string& line : lines) EXPECT_LE(line.size(), static_cast<size_t>(width)) << span;
    }
  }
}

TEST(TimelineTest, ShowsWhatHeldForMostOfAColumn) {
  const std::vector<TimelineRow> rows = {{"a", At(0), At(2), {{At(0.1), 1}, {At(1.8), 2}}}};
  EXPECT_THAT(RenderTimeline(rows, At(2), 80), HasSubstr("\na  11\n"));
}

TEST(TimelineTest, HasSymbolsBeyondNine) {
  const std::vector<TimelineRow> rows = {
      {"a", At(0), At(4), {{At(0), 9}, {At(1), 10}, {At(2), 35}, {At(3), 36}}}};
  EXPECT_THAT(RenderTimeline(rows, At(4), 80), HasSubstr("\na  9az+\n"));
}

TEST(TimelineTest, TakesRowsFromJobsAndEvents) {
  v1::ListJobsResponse jobs;
  v1::Job* job = jobs.add_jobs();
  job->set_name("a");
  job->set_uid("u");
  job->mutable_status()->mutable_submit_time()->set_seconds(absl::ToUnixSeconds(At(0)));
  job->mutable_status()->mutable_completion_time()->set_seconds(absl::ToUnixSeconds(At(3)));
  v1::ListEventsResponse events;
  for (const int replicas : {0, 2}) {
    v1::Event* event = events.add_events();
    event->set_job_uid("u");
    event->mutable_time()->set_seconds(absl::ToUnixSeconds(At(replicas == 0 ? 0 : 1)));
    event->set_replicas(replicas);
  }
  events.add_events()->set_job_uid("of another job of that name");
  EXPECT_THAT(RenderTimeline(TimelineRows(jobs, events), At(9), 80), HasSubstr("\na  .22\n"));
  EXPECT_EQ(RenderTimeline({}, At(0), 80), "");
}

}  // namespace
}  // namespace adaptdl::cli
