// Changes of a replica set in place: who is planned, who is told to go, and what must hold whatever happens.

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/libs/jobs/replicas.h"
#include "tests/libs/jobs/world.h"

namespace adaptdl::jobs {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const absl::Time kStart = absl::FromUnixSeconds(3600);

TEST(InPlaceTest, GrowsAndShrinksWithoutStoppingWhoStays) {
  World world;
  world.Start({"n1"});
  const std::vector<std::string> before = world.Ids();
  world.Want({"n2", "n1"});
  EXPECT_EQ(world.job().phase, Phase::kRescaling);
  EXPECT_FALSE(world.plan().offered);
  world.GoOn();
  EXPECT_THAT(world.job().allocation, ElementsAre("n1", "n2"));
  EXPECT_EQ(world.Ids()[0], before[0]);
  EXPECT_EQ(world.job().restarts, 0);
  EXPECT_EQ(world.job().rescales, 1);
  EXPECT_THAT(world.stopped(), IsEmpty());
  world.Want({"n1"});
  EXPECT_TRUE(world.plan().offered) << "nobody is waited for";
  world.GoOn();
  EXPECT_EQ(world.Ids(), before);
}

TEST(InPlaceTest, NothingChangesForMereOrder) {
  World world;
  world.Start({"n1", "n2"});
  world.Want({"n2", "n1"});
  EXPECT_EQ(world.job().phase, Phase::kRunning);
}

TEST(InPlaceTest, ANewerDecisionReplacesAPlanThatWasNotOffered) {
  World world;
  world.Start({"n1"});
  world.Want({"n1", "n2"});
  const int64_t number = world.plan().group;
  const std::string kept = world.replicas().back().id;
  world.Want({"n1", "n2", "n3"});
  EXPECT_GT(world.plan().group, number);
  EXPECT_GE(RankIn(world.plan(), kept), 0);
  world.Want({"n1", "n3"});
  EXPECT_EQ(world.stopped().count(kept), 1u);
  world.Want({"n1"});
  EXPECT_EQ(world.job().phase, Phase::kRunning);
  world.GoOn();
  EXPECT_EQ(world.job().rescales, 0);
}

TEST(InPlaceTest, ANewcomerIsNotStoppedOnceThePlanWasOffered) {
  World world;
  world.Start({"n1"});
  world.Want({"n1", "n2"});
  Replica* newcomer = world.Find(world.plan().members[1].replica_id);
  world.Prepare(newcomer);
  world.Prepare(newcomer);
  ASSERT_TRUE(world.plan().offered);
  const int64_t offered = world.plan().group;
  world.Want({"n1"});
  EXPECT_EQ(world.job().plans.size(), 2u);
  EXPECT_THAT(world.stopped(), IsEmpty()) << "the members may have chosen the older plan";
  ASSERT_TRUE(world.Enter(offered));
  EXPECT_EQ(world.job().phase, Phase::kRescaling);
  world.GoOn();
  EXPECT_THAT(world.job().allocation, ElementsAre("n1"));
}

TEST(InPlaceTest, LossesAreNotTheJobsFaultAndFailuresAre) {
  World world;
  world.Start({"n1", "n2", "n3"});
  world.Lose(&world.replicas()[0]);
  EXPECT_EQ(world.job().phase, Phase::kRescaling);
  EXPECT_EQ(world.plan().members.size(), 2u);
  EXPECT_EQ(world.job().failures, 0);
  // A second one before they have changed over: a newer plan.
  world.End(&world.replicas()[1], 1);
  EXPECT_EQ(world.plan().members.size(), 1u);
  EXPECT_EQ(world.job().failures, 0) << "it failed in the wake of the first";
  world.GoOn();
  EXPECT_EQ(world.job().restarts, 0);
  world.End(world.Find(world.Ids()[2]), 1);
  EXPECT_EQ(world.job().failures, 1);
  world.GoOn();
  EXPECT_THAT(world.job().allocation, testing::UnorderedElementsAre("n1", "n2", "n3"));
}

TEST(InPlaceTest, WithoutASurvivorTheJobStartsAgain) {
  World world;
  world.Start({"n1", "n2"});
  world.Lose(&world.replicas()[0]);
  world.Lose(&world.replicas()[1]);
  EXPECT_EQ(world.job().phase, Phase::kStarting);
  EXPECT_EQ(world.job().restarts, 1);
  EXPECT_EQ(world.job().failures, 0);
}

TEST(InPlaceTest, Exit75GivesTheGroupUp) {
  World world;
  world.Start({"n1", "n2"});
  world.End(&world.replicas()[0], 75);
  EXPECT_EQ(world.job().phase, Phase::kStopping);
}

TEST(InPlaceTest, AFailureTooManyEndsTheJob) {
  World world;
  world.Start({"n1", "n2"});
  Job job = world.job();
  job.failures = job.max_restarts = 3;
  std::vector<Replica> replicas = world.replicas();
  replicas[0].state = ReplicaState::kExited;
  replicas[0].exit_code = 1;
  Outcome outcome = Advance(job, replicas, Wants({"n1", "n2"}), kStart + absl::Seconds(9), Policy());
  EXPECT_EQ(outcome.job.phase, Phase::kStopping);
  replicas[1].state = ReplicaState::kExited;
  replicas[1].exit_code = 143;
  replicas[1].stop_requested = true;
  outcome = Advance(outcome.job, replicas, Wants({"n1", "n2"}), kStart + absl::Seconds(9), Policy());
  EXPECT_EQ(outcome.job.phase, Phase::kFailed);
}

TEST(InPlaceTest, NewcomersThatFailAgainAndAgainAreTriedLessOften) {
  World world;
  world.Start({"n1"});
  world.Want({"n1", "n2"});
  absl::Duration waited;
  for (int failure = 1; failure <= 4; ++failure) {
    ASSERT_EQ(world.job().phase, Phase::kRescaling);
    world.End(world.Find(world.plan().members[1].replica_id), 1);
    EXPECT_EQ(world.job().phase, Phase::kRunning);
    EXPECT_EQ(world.job().newcomer_failures, failure);
    for (waited = absl::ZeroDuration(); world.job().phase == Phase::kRunning; waited += absl::Seconds(1)) {
      world.Pass(absl::Seconds(1));
    }
  }
  EXPECT_EQ(waited, absl::Seconds(8));
  EXPECT_EQ(world.job().failures, 0);
  world.GoOn();
  EXPECT_EQ(world.job().newcomer_failures, 0);
}

TEST(InPlaceTest, ANewcomerThatDoesNotComeToRunIsGivenUp) {
  World world;
  world.Start({"n1"});
  world.Want({"n1", "n2"});
  const std::string newcomer = world.plan().members[1].replica_id;
  world.Pass(world.policy_.start_deadline - absl::Seconds(1));
  EXPECT_THAT(world.stopped(), IsEmpty());
  world.Pass(absl::Seconds(1));
  EXPECT_THAT(world.stopped(), ElementsAre(newcomer));
  EXPECT_EQ(world.job().phase, Phase::kRunning);
  EXPECT_EQ(world.job().newcomer_failures, 1);
  EXPECT_EQ(world.job().failures, 0);
  // Another one is tried, with a time of its own.
  world.End(world.Find(newcomer), 143);
  world.Pass(absl::Seconds(1));
  ASSERT_EQ(world.job().phase, Phase::kRescaling);
  EXPECT_NE(world.plan().members[1].replica_id, newcomer);
  world.GoOn();
  EXPECT_THAT(world.job().allocation, ElementsAre("n1", "n2"));
}

TEST(InPlaceTest, ANewcomerThatRunsMayTakeItsTime) {
  World world;
  world.Start({"n1"});
  world.Want({"n1", "n2"});
  world.Find(world.plan().members[1].replica_id)->state = ReplicaState::kRunning;
  world.Pass(3 * world.policy_.start_deadline);
  EXPECT_THAT(world.stopped(), IsEmpty());
  world.GoOn();
  EXPECT_THAT(world.job().allocation, ElementsAre("n1", "n2"));
}

// A node goes away in a minute, and the newcomer that is to replace its member is not ready in time.
TEST(InPlaceTest, ThoseThatStayDoNotWaitForNewcomersUntilANodeIsGone) {
  World world;
  world.Start({"n1", "n2"});
  Replica* leaver = world.Find(world.Ids()[1]);
  leaver->node_leaving = true;
  leaver->node_deadline = world.now() + absl::Seconds(30);
  world.Want({"n1", "n3"});
  world.Pass(absl::Seconds(4));
  EXPECT_FALSE(world.plan().offered);
  world.Pass(absl::Seconds(1));
  ASSERT_TRUE(world.plan().offered);
  EXPECT_EQ(world.plan().members.size(), 1u);
  EXPECT_EQ(world.plan().members[0].node, "n1");
  EXPECT_EQ(world.job().restarts, 0);
  world.GoOn();
  EXPECT_THAT(world.job().allocation, ElementsAre("n1", "n3"));
}

TEST(InPlaceTest, WhereTheTimeIsLongTheyWaitForNewcomersALittleLonger) {
  World world;
  world.Start({"n1", "n2"});
  world.Find(world.Ids()[1])->node_deadline = world.now() + absl::Hours(1);
  world.Want({"n1", "n3"});
  world.Pass(world.policy_.leaving_patience - absl::Seconds(1));
  EXPECT_FALSE(world.plan().offered);
  world.Pass(absl::Seconds(1));
  EXPECT_TRUE(world.plan().offered);
}

TEST(InPlaceTest, TooFewDoNotGoOnWithoutNewcomers) {
  Job job;
  job.id_prefix = "job";
  job.phase = Phase::kRescaling;
  job.group = 2;
  job.last_group = 3;
  job.rescales_in_place = true;
  job.allocation = {"n1", "n2"};
  std::vector<Replica> replicas = {Running(0), Running(1), Member(1, ReplicaState::kRunning, 3)};
  for (int i : {0, 1}) replicas[i].joined = replicas[i].rescales_in_place = true;
  replicas[1].node_deadline = kStart + absl::Seconds(30);
  replicas[2].node = "n3";
  job.plans = {{.group = 3, .members = {{replicas[0].id, "n1"}, {replicas[2].id, "n3"}}, .since = kStart}};
  for (const int least : {1, 2}) {
    job.min_replicas = least;
    const Outcome outcome = Advance(job, replicas, Wants({"n1", "n3"}), kStart + absl::Seconds(20), Policy());
    EXPECT_EQ(outcome.offer, least == 1);
    EXPECT_EQ(outcome.job.plans.back().members.size(), least == 1 ? 1u : 2u);
  }
}

TEST(InPlaceTest, AllowedSizesHoldOnTheWayToo) {
  Job job;
  job.id_prefix = "job";
  job.phase = Phase::kRunning;
  job.group = 2;
  job.rescales_in_place = true;
  job.allocation = {"n1", "n2"};
  job.allowed_replicas = {2, 4};
  std::vector<Replica> replicas = {Running(0), Running(1)};
  for (Replica& replica : replicas) replica.joined = replica.rescales_in_place = true;
  // Three members on the way are too many: by the checkpoint. A loss leaves too few.
  Desired desired = Wants({"n3", "n3"});
  EXPECT_EQ(Advance(job, replicas, desired, kStart, Policy()).job.phase, Phase::kRescaling);
  job.max_replicas = 3;
  EXPECT_EQ(Advance(job, replicas, desired, kStart, Policy()).job.phase, Phase::kStopping);
  replicas[1].state = ReplicaState::kLost;
  EXPECT_EQ(Advance(job, replicas, desired, kStart, Policy()).job.phase, Phase::kStopping);
}

// The decision that is there was made for the bounds that the job had before; the next one comes soon.
TEST(InPlaceTest, BoundsThatItsUserChangesStopNoJob) {
  Job job;
  job.id_prefix = "job";
  job.phase = Phase::kRunning;
  job.group = 2;
  job.rescales_in_place = true;
  job.allocation = {"n1", "n2"};
  std::vector<Replica> replicas = {Running(0), Running(1)};
  for (Replica& replica : replicas) replica.joined = replica.rescales_in_place = true;
  job.max_replicas = 1;
  Outcome outcome = Advance(job, replicas, Wants({"n1", "n2"}), kStart, Policy());
  EXPECT_EQ(outcome.job.phase, Phase::kRunning);
  EXPECT_TRUE(outcome.stops.empty());
  outcome = Advance(outcome.job, replicas, Wants({"n1"}), kStart, Policy());
  EXPECT_EQ(outcome.job.phase, Phase::kRescaling);
  ASSERT_EQ(outcome.job.plans.size(), 1u);
  EXPECT_EQ(outcome.job.plans.back().members.size(), 1u);
  // The same where it is to be larger.
  job.max_replicas = 0;
  job.min_replicas = 3;
  EXPECT_EQ(Advance(job, replicas, Wants({"n1", "n2"}), kStart, Policy()).job.phase, Phase::kRunning);
}

// Those of a job that trained under an earlier supervisor.
TEST(InPlaceTest, NothingIsDecidedUntilMembersHaveJoinedAgain) {
  Job job;
  job.id_prefix = "job";
  job.phase = Phase::kRunning;
  job.group = 2;
  job.rescales_in_place = true;
  job.allocation = {"n1", "n2"};
  std::vector<Replica> replicas = {Running(0), Running(1)};
  for (Replica& replica : replicas) replica.rescales_in_place = true;
  const Desired desired = Wants({"n1"});
  EXPECT_EQ(Advance(job, replicas, desired, kStart, Policy()).job, job);
  replicas[1].joined = true;
  EXPECT_EQ(Advance(job, replicas, desired, kStart, Policy()).job, job);
  // Whoever is gone is not waited for, and those that are there are.
  std::vector<Replica> one_left = replicas;
  one_left[1].state = ReplicaState::kLost;
  EXPECT_EQ(Advance(job, one_left, desired, kStart, Policy()).job, job);
  one_left[0].joined = true;
  EXPECT_EQ(Advance(job, one_left, desired, kStart, Policy()).job.phase, Phase::kRescaling);
  replicas[0].joined = true;
  EXPECT_EQ(Advance(job, replicas, desired, kStart, Policy()).job.phase, Phase::kRescaling);
  // A user is not kept waiting.
  replicas[0].joined = false;
  job.cancel_requested = true;
  EXPECT_EQ(Advance(job, replicas, desired, kStart, Policy()).job.phase, Phase::kStopping);
}

TEST(InPlaceTest, FinishesWhateverIsPlanned) {
  World world;
  world.Start({"n1", "n2"});
  world.Want({"n1", "n3"});
  const std::string newcomer = world.plan().members[1].replica_id;
  world.End(&world.replicas()[0], 0);
  EXPECT_EQ(world.job().phase, Phase::kRescaling);
  world.End(&world.replicas()[1], 0);
  EXPECT_EQ(world.job().phase, Phase::kSucceeded);
  EXPECT_EQ(world.stopped().count(newcomer), 1u);
}

TEST(InPlaceTest, PausesAreWhatItCosts) {
  World world;
  world.Start({"n1"});
  world.Want({"n1", "n2"});
  world.GoOn();
  Job job = world.job();
  Event event;
  const RescaleCost times = {job.group, absl::Milliseconds(30), absl::Milliseconds(10),
                             absl::Milliseconds(20), absl::Milliseconds(20)};
  EXPECT_FALSE(ObserveRescale({job.group - 1, {}, {}, {}, {}}, &job, &event));
  EXPECT_TRUE(ObserveRescale(times, &job, &event));
  EXPECT_EQ(job.rescale_duration, absl::Milliseconds(50));
  EXPECT_EQ(event.reason, "Rescaled");
  EXPECT_FALSE(ObserveRescale(times, &job, &event)) << "once for each";
}

// Whatever happens, in whatever order: numbers only grow, nothing is launched where there is no room, rank 0
// of a plan is a survivor (World::Check() looks at each step), and when faults stop the job gets to where it
// is wanted.
TEST(InPlaceTest, RandomLives) {
  const std::vector<std::string> nodes = {"n1", "n2", "n3"};
  int entered = 0;
  for (int seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(seed);
    const auto pick = [&](int count) { return static_cast<int>(random() % count); };
    const auto wish = [&] {
      std::vector<std::string> wanted;
      for (const std::string& node : nodes) wanted.insert(wanted.end(), pick(3), node);
      std::shuffle(wanted.begin(), wanted.end(), random);
      if (wanted.empty()) wanted.push_back("n1");
      return wanted;
    };
    World world;
    world.Start(wish());
    for (int event = 0; event < 40; ++event) {
      Replica* replica = &world.replicas()[pick(static_cast<int>(world.replicas().size()))];
      switch (pick(12)) {
        case 0:
          world.Want(wish());
          break;
        case 1:
          if (pick(4) == 0 && IsLive(*replica)) world.End(replica, 1);
          break;
        case 2:
          if (pick(4) == 0 && IsLive(*replica)) world.Lose(replica);
          break;
        case 3:
          if (IsLive(*replica) && replica->group == world.job().group) {
            const auto& plans = world.job().plans;
            const bool tried = !plans.empty() && plans.back().offered && pick(2) == 0;
            world.Report(replica, tried ? plans.back().group : world.job().group);
          }
          break;
        case 4:
          if (IsLive(*replica) && replica->stop_requested) world.End(replica, 143);
          break;
        case 5:
        case 6: {
          if (world.job().plans.empty()) break;
          const auto& plans = world.job().plans;
          const Plan chosen = plans[pick(static_cast<int>(plans.size()))];
          if (!chosen.offered || !world.AllLive(chosen)) break;
          // Those that leave are faster than the news.
          for (const std::string& id : world.LiveIds()) {
            Replica* other = world.Find(id);
            if (other == nullptr || other->group != world.job().group || RankIn(chosen, id) >= 0) continue;
            if (pick(2) == 0) world.End(other, 143);
          }
          entered += world.AllLive(chosen) && world.Enter(chosen.group);
          break;
        }
        case 7:
          world.Pass(absl::Milliseconds(500 + pick(4000)));
          break;
        default:
          if (IsLive(*replica)) world.Prepare(replica);
      }
      if (HasFatalFailure()) return;
    }
    world.GoOn();
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(entered, 500);
}

}  // namespace
}  // namespace adaptdl::jobs
