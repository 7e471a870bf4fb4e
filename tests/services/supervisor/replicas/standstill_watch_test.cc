// Jobs that run and take no steps are told of, once, with who is to blame.

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/supervisor/store/convert.h"
#include "tests/services/supervisor/managers_fixture.h"

namespace adaptdl::supervisor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SilentStream final : public ReplicaStream {
 public:
  void Poke() override {}
  void End(const absl::Status& /*why*/) override {}
};

class StandstillWatchTest : public ManagersTest {
 protected:
  void SetUp() override {
    // Nodes are not what these tests lose.
    options_.heartbeat_period = absl::Hours(1);
    ManagersTest::SetUp();
    ASSERT_TRUE(AddNode("n1").ok());
    ASSERT_TRUE(AddNode("n2").ok());
    job_ = Submit("a").value_or(v1::Job());
    ASSERT_TRUE(Allocate(job_, {"n1", "n2"}).ok());
    for (const auto& [node, launch] : launcher_.launches) {
      ASSERT_TRUE(Report(launch, node, v1::REPLICA_STATE_RUNNING).ok());
      ids_of_.push_back(launch.replica_id());
      sessions_.Attach(launch.replica_id(), stream_);
    }
    ASSERT_EQ(ids_of_.size(), 2u);
    ASSERT_EQ(Get("a").status().phase(), v1::JOB_PHASE_RUNNING);
  }

  // A heartbeat of a replica that has done nothing for so long.
  void Beat(int rank, absl::Duration idle = absl::ZeroDuration(),
            absl::Duration waiting = absl::ZeroDuration()) {
    v1::HeartbeatRequest request;
    if (rank == 0) {
      request.mutable_progress()->set_optimizer_steps(steps_);
      request.mutable_progress()->mutable_step_times()->set_compute(step_seconds_);
    }
    *request.mutable_activity()->mutable_idle() = ToProto(idle);
    *request.mutable_activity()->mutable_waiting() = ToProto(waiting);
    sessions_.Heard(ids_of_[rank], job_.uid(), request, clock_.Steady());
  }
  // Both replicas are heard meanwhile, and take no step.
  void Stand(absl::Duration duration) {
    for (; duration > absl::ZeroDuration(); duration -= absl::Seconds(5)) {
      Beat(0);
      Beat(1);
      Advance(absl::Seconds(5));
    }
  }
  void TakeStep() {
    ++steps_;
    Stand(absl::Seconds(5));
  }
  std::vector<std::string> Told() {
    std::vector<std::string> told;
    v1::ListEventsRequest request;
    request.set_namespace_("default");
    request.set_name("a");
    request.set_page_size(1000);
    const auto events = cluster_->jobs()->ListEvents(request);
    EXPECT_TRUE(events.ok()) << events.status();
    for (const v1::Event& event : events->events()) {
      if (event.reason() == "NoSteps" || event.reason() == "StepsAgain") {
        told.push_back(absl::StrCat(event.reason(), ": ", event.message()));
        node_ = event.node_id();
      }
    }
    return told;
  }

  std::shared_ptr<SilentStream> stream_ = std::make_shared<SilentStream>();
  v1::Job job_;
  std::vector<std::string> ids_of_;
  int64_t steps_ = 0;
  double step_seconds_ = 0.1;
  // Of the last event.
  std::string node_;
};

TEST_F(StandstillWatchTest, TellsOnceOfAJobThatTakesNoSteps) {
  TakeStep();
  Stand(absl::Seconds(110));
  EXPECT_THAT(Told(), IsEmpty());
  EXPECT_EQ(Get("a").status().reason(), "");
  Stand(absl::Minutes(10));
  EXPECT_THAT(Told(), ElementsAre("NoSteps: no step for 2m after step 1 (a usual one takes 0.1 s): "
                                  "its replicas live, and do something else"));
  EXPECT_EQ(Get("a").status().phase(), v1::JOB_PHASE_RUNNING);
  EXPECT_EQ(Get("a").status().reason(), "NoSteps");
  EXPECT_THAT(Get("a").status().message(), HasSubstr("no step for 2m"));
}

TEST_F(StandstillWatchTest, TellsWhenItGoesOnAndWaitsLongerTheNextTime) {
  TakeStep();
  Stand(absl::Minutes(5));
  TakeStep();
  EXPECT_EQ(Told().back(), "StepsAgain: takes steps again: 2");
  EXPECT_EQ(Get("a").status().reason(), "");
  EXPECT_EQ(Get("a").status().message(), "");
  Stand(absl::Minutes(5));
  TakeStep();
  EXPECT_EQ(Told().size(), 2u) << "as long as before, as when it evaluates";
  Stand(absl::Minutes(11));
  EXPECT_EQ(Told().size(), 3u);
}

TEST_F(StandstillWatchTest, NamesWhoIsSilent) {
  TakeStep();
  for (int i = 0; i < 25; ++i) {
    Beat(0);
    Advance(absl::Seconds(5));
  }
  ASSERT_EQ(Told().size(), 1u);
  EXPECT_THAT(Told()[0], HasSubstr(": replica 1 on node n2 is silent, its last heartbeat came "));
  EXPECT_EQ(node_, "n2");
}

TEST_F(StandstillWatchTest, NamesWhoDoesNothing) {
  TakeStep();
  for (int i = 0; i < 25; ++i) {
    Beat(0, absl::Seconds(5 * i));
    Beat(1);
    Advance(absl::Seconds(5));
  }
  ASSERT_EQ(Told().size(), 1u);
  EXPECT_THAT(Told()[0], HasSubstr(": replica 0 on node n1 has done nothing for "));
  EXPECT_EQ(node_, "n1");
}

TEST_F(StandstillWatchTest, NamesWhoKeepsTheOthersWaiting) {
  TakeStep();
  for (int i = 0; i < 25; ++i) {
    Beat(0);
    Beat(1, absl::ZeroDuration(), absl::Seconds(5 * i));
    Advance(absl::Seconds(5));
  }
  ASSERT_EQ(Told().size(), 1u);
  EXPECT_THAT(Told()[0],
              HasSubstr(": replica 0 on node n1 is busy with something else, and the others wait for it"));
  EXPECT_EQ(node_, "n1");
}

TEST_F(StandstillWatchTest, SlowStepsAreNone) {
  step_seconds_ = 60;
  TakeStep();
  Stand(absl::Minutes(19));
  EXPECT_THAT(Told(), IsEmpty());
  Stand(absl::Minutes(2));
  EXPECT_EQ(Told().size(), 1u);
}

TEST_F(StandstillWatchTest, AJobThatHasNeverTakenAStepIsNotMissed) {
  Stand(absl::Minutes(30));
  EXPECT_THAT(Told(), IsEmpty());
}

TEST_F(StandstillWatchTest, ASupervisorThatIsRestartedCountsAnew) {
  TakeStep();
  Stand(absl::Minutes(3));
  ASSERT_EQ(Told().size(), 1u);
  cluster_ = nullptr;
  Start();
  Advance(absl::Seconds(5));
  EXPECT_EQ(Get("a").status().reason(), "");
  for (int i = 0; i < 30; ++i) Advance(absl::Seconds(5));
  EXPECT_EQ(Get("a").status().reason(), "NoSteps");
}

}  // namespace
}  // namespace adaptdl::supervisor
