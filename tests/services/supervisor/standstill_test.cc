// A job whose only replica is stopped, as its user is told of it.

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tests/services/supervisor/rescale_fixture.h"

namespace adaptdl::supervisor {
namespace {

using StandstillTest = RescaleTest;

TEST_F(StandstillTest, AStoppedReplicaIsNamedAndNotEnded) {
  StartOne();
  first_.heart->Beat(0.5);
  first_.heart->Next();
  Advance(absl::Seconds(130), absl::Seconds(5));
  const v1::JobStatus status = Get("a").status();
  EXPECT_EQ(status.phase(), v1::JOB_PHASE_RUNNING);
  EXPECT_EQ(status.reason(), "NoSteps");
  EXPECT_TRUE(absl::StrContains(status.message(), "replica 0 on node n1 is silent")) << status.message();
  const std::vector<v1::Event> events = Events("a");
  EXPECT_EQ(std::count_if(events.begin(), events.end(),
                          [](const v1::Event& event) {
                            return event.reason() == "NoSteps" && event.type() == v1::EVENT_TYPE_WARNING &&
                                   event.node_id() == "n1";
                          }),
            1);
  // Somebody lets it go on.
  first_.heart->Beat(0.6);
  first_.heart->Next();
  Advance(absl::Seconds(5));
  EXPECT_EQ(Get("a").status().reason(), "");
  EXPECT_EQ(Events("a").back().reason(), "StepsAgain");
}

TEST_F(StandstillTest, AJobThatIsToShrinkAndReachesNoEndOfAStepIsToldOf) {
  StartTwo();
  first_.heart->Beat(0.5);
  first_.heart->Next();
  Advance(absl::Seconds(60), absl::Seconds(5));
  Allocate(job_, {"n1"});
  Advance(absl::Seconds(70), absl::Seconds(5));
  const v1::JobStatus status = Get("a").status();
  EXPECT_EQ(status.phase(), v1::JOB_PHASE_RESCALING);
  EXPECT_EQ(status.reason(), "NoSteps");
  EXPECT_TRUE(absl::StrContains(status.message(), "no step for 2m")) << status.message();
}

}  // namespace
}  // namespace adaptdl::supervisor
