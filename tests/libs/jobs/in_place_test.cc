// Changes of a replica set in place: who is planned, who is told to go, and what must hold whatever happens.

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/jobs/planning.h"
#include "libs/jobs/state_machine.h"
#include "tests/libs/jobs/replicas.h"

namespace adaptdl::jobs {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const absl::Time kStart = absl::FromUnixSeconds(3600);

TEST(ChooseMembersTest, LowestRanksStayOnEachNode) {
  const std::vector<PlanMember> current = {{"a", "n1"}, {"b", "n2"}, {"c", "n1"}, {"d", "n2"}};
  const Target target = ChooseMembers(current, {}, {"n2", "n3", "n2", "n1"}, true);
  EXPECT_THAT(target.members, ElementsAre(PlanMember{"a", "n1"}, PlanMember{"b", "n2"}, PlanMember{"d", "n2"},
                                          PlanMember{"", "n3"}));
  EXPECT_EQ(target.survivors, 3);
}

TEST(ChooseMembersTest, AllStayUntilNewcomersOnOtherNodesCan) {
  const Target target = ChooseMembers({{"a", "n1"}}, {{"x", "n3"}, {"y", "n2"}}, {"n2", "n2"}, true);
  EXPECT_THAT(target.members,
              ElementsAre(PlanMember{"a", "n1"}, PlanMember{"y", "n2"}, PlanMember{"", "n2"}));
  EXPECT_THAT(ChooseMembers({{"a", "n1"}}, {}, {"n2"}, false).members, ElementsAre(PlanMember{"a", "n1"}));
}

TEST(AllowedSizeTest, RespectsBoundsAndList) {
  Job job;
  job.min_replicas = 2;
  job.max_replicas = 8;
  job.allowed_replicas = {2, 4};
  EXPECT_EQ(LargestAllowedSize(job, 3), 2);
  EXPECT_EQ(LargestAllowedSize(job, 1), 0);
  EXPECT_TRUE(AllowsSize(job, 4));
  EXPECT_FALSE(AllowsSize(job, 8));
}

// A cluster of three nodes of two places, one job, and its replicas.
class World {
 public:
  World() {
    job_.id_prefix = "job";
    job_.rescales_in_place = true;
    job_.max_restarts = 1'000'000;
  }

  // Runs the machine until it wants no more, and does what it says.
  void Settle() {
    for (int i = 0; i < 8; ++i) {
      const Job before = job_;
      desired_.free = Free();
      const Outcome outcome = Advance(before, replicas_, desired_, now_, policy_);
      Check(before, outcome);
      Apply(outcome);
      if (Settled(before, outcome)) return;
    }
    FAIL() << "does not come to rest in " << PhaseName(job_.phase);
  }

  void Want(std::vector<std::string> nodes) {
    desired_.nodes = std::move(nodes);
    Settle();
  }
  void Pass(absl::Duration duration) {
    now_ += duration;
    Settle();
  }
  void Prepare(Replica* replica) {
    if (replica->state == ReplicaState::kLaunching) {
      replica->state = ReplicaState::kRunning;
    } else if (IsLive(*replica)) {
      replica->joined = replica->rescales_in_place = true;
    }
    Settle();
  }
  void End(Replica* replica, int code, int signal = 0) {
    replica->state = ReplicaState::kExited;
    replica->exit_code = code;
    replica->signal = signal;
    Settle();
  }
  void Lose(Replica* replica) {
    replica->state = ReplicaState::kLost;
    replica->loss = LossCause::kNode;
    Settle();
  }
  void Report(Replica* replica, int64_t group) {
    if (replica->broken_group == group) return;
    replica->broken_group = group;
    replica->broken_since = now_;
    Settle();
  }
  // A heartbeat.
  void Hear(Replica* replica, absl::Duration waiting = {}, absl::Duration idle = {},
            absl::Duration patience = {}) {
    replica->heard = now_;
    replica->waiting = waiting;
    replica->idle = idle;
    replica->patience = patience;
    Settle();
  }
  // The members change over to this plan. False: they can't.
  bool Enter(int64_t group) {
    const std::optional<Entered> entered = EnterGroup(job_, group);
    if (!entered.has_value()) return false;
    EXPECT_GT(entered->job.group, job_.group);
    job_ = entered->job;
    for (size_t rank = 0; rank < entered->members.size(); ++rank) {
      Replica* replica = Find(entered->members[rank]);
      EXPECT_NE(replica, nullptr);
      replica->group = group;
      replica->rank = static_cast<int>(rank);
    }
    Settle();
    return true;
  }

  Replica* Find(const std::string& id) {
    for (Replica& replica : replicas_) {
      if (replica.id == id) return &replica;
    }
    return nullptr;
  }
  bool AllLive(const Plan& plan) {
    return std::all_of(plan.members.begin(), plan.members.end(), [&](const PlanMember& member) {
      const Replica* replica = Find(member.replica_id);
      return replica != nullptr && IsLive(*replica) && !replica->stop_requested;
    });
  }
  // Lets everything happen that is due, until the job is where it is wanted.
  void GoOn() {
    for (int i = 0; i < 400; ++i) {
      if (job_.phase == Phase::kRunning && SameNodes(job_.allocation, desired_.nodes)) return;
      for (const std::string& id : LiveIds()) {
        if (Replica* replica = Find(id)) Prepare(replica);
        Replica* replica = Find(id);
        if (replica != nullptr && replica->stop_requested) End(replica, 143);
      }
      FollowPlan();
      Pass(absl::Seconds(1));
    }
    FAIL() << "stays in " << PhaseName(job_.phase) << " (" << job_.reason << ": " << job_.message << ")";
  }
  // What the members do: they change over to the newest plan that they know, or find that it does not work.
  void FollowPlan() {
    const auto known =
        std::find_if(job_.plans.rbegin(), job_.plans.rend(), [](const Plan& plan) { return plan.offered; });
    if (known == job_.plans.rend()) return;
    const int64_t number = known->group;
    if (AllLive(*known)) {
      Enter(number);
      return;
    }
    for (const std::string& id : LiveIds()) {
      Replica* replica = Find(id);
      if (replica != nullptr && replica->group == job_.group) Report(replica, number);
    }
  }
  // A group of these nodes that trains.
  void Start(const std::vector<std::string>& nodes) {
    Want(nodes);
    GoOn();
    for (const std::string& id : LiveIds()) Prepare(Find(id));
  }

  std::vector<std::string> LiveIds() {
    std::vector<std::string> ids;
    for (const Replica& replica : replicas_) {
      if (IsLive(replica)) ids.push_back(replica.id);
    }
    return ids;
  }
  std::vector<std::string> Ids() {
    std::vector<std::string> ids;
    for (const Replica& replica : replicas_) {
      if (replica.group == job_.group) ids.push_back(replica.id);
    }
    return ids;
  }
  const Job& job() const { return job_; }
  const Plan& plan() const { return job_.plans.back(); }
  std::vector<Replica>& replicas() { return replicas_; }
  const std::set<std::string>& stopped() const { return stopped_; }
  // Those of them that were given no time.
  const std::set<std::string>& killed() const { return killed_; }
  // The last that was found.
  const std::optional<std::pair<std::string, std::string>>& apart() const { return apart_; }
  int places = 2;
  Policy policy_;

 private:
  std::map<std::string, int> Free() const {
    std::map<std::string, int> free = {{"n1", places}, {"n2", places}, {"n3", places}};
    for (const Replica& replica : replicas_) free[replica.node] -= IsLive(replica);
    for (auto& [node, count] : free) count = std::max(0, count);
    return free;
  }

  void Check(const Job& before, const Outcome& outcome) {
    const Job& after = outcome.job;
    ASSERT_GE(after.group, before.group);
    ASSERT_GE(after.last_group, before.last_group);
    if (outcome.launch.has_value()) {
      ASSERT_TRUE(std::none_of(replicas_.begin(), replicas_.end(), IsLive));
    } else {
      ASSERT_EQ(after.group, before.group);
      ASSERT_TRUE(after.allocation == before.allocation || after.allocation.empty());
    }
    std::map<std::string, int> free = Free();
    for (const LaunchNewcomer& launch : outcome.newcomers) {
      ASSERT_GT(free[launch.node]--, 0) << "no room on " << launch.node;
      ASSERT_EQ(Find(launch.replica_id), nullptr) << "used twice: " << launch.replica_id;
      ASSERT_GT(launch.group, before.group);
    }
    ASSERT_EQ(after.phase == Phase::kRescaling, !after.plans.empty());
    int64_t last = after.group;
    for (const Plan& plan : after.plans) {
      ASSERT_GT(plan.group, last);
      last = plan.group;
      ASSERT_FALSE(plan.members.empty());
      ASSERT_TRUE(&plan == &after.plans.back() || plan.offered);
    }
    if (!after.plans.empty()) {
      const Replica* lead = Find(after.plans.back().members[0].replica_id);
      ASSERT_TRUE(lead != nullptr && lead->group == after.group) << "rank 0 is no survivor";
    }
    if (outcome.offer) {
      for (const PlanMember& member : after.plans.back().members) {
        const Replica* replica = Find(member.replica_id);
        ASSERT_TRUE(replica != nullptr && IsLive(*replica) && replica->joined);
      }
    }
    if (!IsTerminal(after.phase)) {
      ASSERT_NE(outcome.waits_for, WaitsFor::kNothing);
    }
  }

  void Apply(const Outcome& outcome) {
    job_ = outcome.job;
    if (outcome.apart.has_value()) apart_ = outcome.apart;
    if (outcome.launch.has_value()) {
      replicas_.clear();
      for (size_t rank = 0; rank < outcome.launch->nodes.size(); ++rank) {
        Add(absl::StrCat("job-", outcome.launch->group, "-", rank), outcome.launch->group,
            static_cast<int>(rank), outcome.launch->nodes[rank]);
      }
    }
    for (const LaunchNewcomer& launch : outcome.newcomers) {
      Add(launch.replica_id, launch.group, launch.rank, launch.node);
    }
    for (const std::string& id : outcome.judged) Find(id)->judged = true;
    for (const StopOrder& stop : outcome.stops) {
      Find(stop.replica_id)->stop_requested = true;
      stopped_.insert(stop.replica_id);
      if (stop.at_once) killed_.insert(stop.replica_id);
    }
  }
  void Add(const std::string& id, int64_t group, int rank, const std::string& node) {
    Replica& replica = replicas_.emplace_back();
    replica.id = id;
    replica.group = group;
    replica.rank = rank;
    replica.node = node;
  }

  Job job_;
  std::vector<Replica> replicas_;
  std::set<std::string> stopped_;
  std::set<std::string> killed_;
  std::optional<std::pair<std::string, std::string>> apart_;
  Desired desired_;
  absl::Time now_ = kStart;
};

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

TEST(InPlaceTest, WhoDoesNotSayThatTheGroupIsBrokenIsGivenUp) {
  World world;
  world.Start({"n1", "n2", "n3"});
  const int64_t group = world.job().group;
  world.Report(&world.replicas()[0], group);
  world.Report(&world.replicas()[2], group);
  world.Hear(&world.replicas()[1]);
  EXPECT_EQ(world.job().phase, Phase::kRunning);
  world.Pass(world.policy_.silence);
  EXPECT_EQ(world.job().phase, Phase::kRunning);
  world.Pass(absl::Seconds(1));
  EXPECT_TRUE(world.plan().broken);
  EXPECT_EQ(world.plan().members.size(), 2u);
  EXPECT_EQ(world.stopped(), std::set<std::string>{world.replicas()[1].id});
  // Its end is no news.
  const int64_t planned = world.plan().group;
  world.End(&world.replicas()[1], 0, 9);
  EXPECT_EQ(world.plan().group, planned);
  EXPECT_EQ(world.job().failures, 0);
  // A report of the old group is answered by the plan; one of the plan is not.
  world.Pass(absl::Seconds(5));
  EXPECT_EQ(world.plan().group, planned);
  world.Report(&world.replicas()[0], planned);
  world.Report(&world.replicas()[2], planned);
  EXPECT_GT(world.plan().group, planned);
  world.GoOn();
}

TEST(InPlaceTest, WhoseHeartbeatIsUnknownMayHaveLostUsNotTheGroup) {
  World world;
  world.Start({"n1", "n2"});
  world.Report(&world.replicas()[0], world.job().group);
  world.Pass(world.policy_.suspicion);
  EXPECT_EQ(world.job().phase, Phase::kRunning);
  world.Pass(world.policy_.silence - world.policy_.suspicion);
  EXPECT_EQ(world.plan().members.size(), 1u);
}

TEST(InPlaceTest, ALongStepIsNoReasonToGiveAMemberUp) {
  World world;
  world.Start({"n1", "n2"});
  world.Report(&world.replicas()[0], world.job().group);
  for (absl::Duration passed; passed < world.policy_.busy_suspicion; passed += absl::Seconds(2)) {
    EXPECT_EQ(world.job().phase, Phase::kRunning) << absl::FormatDuration(passed);
    world.Hear(&world.replicas()[1]);
    world.Pass(absl::Seconds(2));
  }
  EXPECT_EQ(world.stopped().size(), 1u) << "for ever it is not waited for";
}

TEST(InPlaceTest, WhoUsuallyTakesLongGetsLonger) {
  World world;
  world.Start({"n1", "n2"});
  world.Report(&world.replicas()[0], world.job().group);
  for (absl::Duration passed; passed < absl::Minutes(4); passed += absl::Seconds(2)) {
    world.Hear(&world.replicas()[0], {}, {}, absl::Minutes(5));
    world.Hear(&world.replicas()[1]);
    world.Pass(absl::Seconds(2));
  }
  EXPECT_EQ(world.job().phase, Phase::kRunning);
  // It comes to its next collective, and says so.
  world.Report(&world.replicas()[1], world.job().group);
  EXPECT_EQ(world.plan().members.size(), 2u);
  EXPECT_THAT(world.stopped(), IsEmpty());
}

TEST(InPlaceTest, WhoDoesNothingInABrokenGroupIsGivenUpSoon) {
  World world;
  world.Start({"n1", "n2"});
  world.Report(&world.replicas()[0], world.job().group);
  world.Pass(world.policy_.suspicion);
  EXPECT_EQ(world.job().phase, Phase::kRunning);
  world.Hear(&world.replicas()[1], {}, absl::Seconds(20), absl::Seconds(10));
  EXPECT_EQ(world.plan().members.size(), 1u);
}

// Three members of which the last two wait, as their heartbeats say.
class AbsentMemberTest : public testing::Test {
 protected:
  AbsentMemberTest() { world_.Start({"n1", "n2", "n3"}); }

  // A heartbeat of the two that wait; the first one says what `heartbeat` does.
  void Wait(absl::Duration duration, const std::function<void(Replica*)>& heartbeat) {
    for (absl::Duration waited; waited < duration; waited += absl::Seconds(2)) {
      if (!Steady()) return;
      heartbeat(&first());
      for (int i : {1, 2}) world_.Hear(&world_.replicas()[i], waited, {}, absl::Seconds(10));
      world_.Pass(absl::Seconds(2));
    }
  }
  void Works(Replica* replica) { world_.Hear(replica, {}, absl::Seconds(1), absl::Seconds(10)); }
  bool Steady() const { return world_.job().phase == Phase::kRunning; }
  Replica& first() { return world_.replicas()[0]; }

  World world_;
};

TEST_F(AbsentMemberTest, AFrozenOneIsGivenUpAfterAFewHeartbeats) {
  Works(&first());
  Wait(world_.policy_.silence + absl::Seconds(4), [](Replica*) {});
  ASSERT_FALSE(Steady());
  EXPECT_EQ(world_.plan().members.size(), 2u);
  EXPECT_TRUE(world_.plan().firm);
  EXPECT_TRUE(world_.plan().broken);
  EXPECT_EQ(world_.stopped(), std::set<std::string>{first().id});
  EXPECT_EQ(world_.killed(), world_.stopped());
  EXPECT_EQ(world_.job().failures, 0);
  // Its end is no news, and another one takes its place.
  world_.End(&first(), 0, 9);
  world_.GoOn();
  EXPECT_EQ(world_.job().allocation.size(), 3u);
  EXPECT_EQ(world_.job().restarts, 0);
}

TEST_F(AbsentMemberTest, OneThatHangsIsGivenUpWhenTheirPatienceEnds) {
  absl::Duration idle;
  Wait(absl::Seconds(14), [&](Replica* replica) {
    world_.Hear(replica, {}, idle, absl::Seconds(10));
    idle += absl::Seconds(2);
  });
  ASSERT_FALSE(Steady());
  EXPECT_EQ(world_.stopped(), std::set<std::string>{first().id});
}

TEST_F(AbsentMemberTest, OneThatWorksIsWaitedFor) {
  Wait(absl::Minutes(4), [&](Replica* replica) { Works(replica); });
  EXPECT_TRUE(Steady());
}

TEST_F(AbsentMemberTest, NobodyIsToBlameWhereAllWait) {
  absl::Duration waited;
  Wait(absl::Minutes(4),
       [&](Replica* replica) { world_.Hear(replica, waited += absl::Seconds(2), {}, absl::Seconds(10)); });
  EXPECT_TRUE(Steady());
}

TEST_F(AbsentMemberTest, SilenceDoesNotMatterWhileNobodyWaits) {
  Works(&first());
  for (int i = 0; i < 60; ++i) {
    for (int other : {1, 2}) world_.Hear(&world_.replicas()[other], {}, {}, absl::Seconds(10));
    world_.Pass(absl::Seconds(2));
  }
  EXPECT_TRUE(Steady());
}

TEST_F(AbsentMemberTest, NothingIsKnownAfterOurRestart) {
  Wait(absl::Minutes(1), [](Replica*) {});
  EXPECT_TRUE(Steady()) << "it may be on its way to us";
}

// Three members that all wait, and say where.
class StalledGroupTest : public testing::Test {
 protected:
  StalledGroupTest() { world_.Start({"n1", "n2", "n3"}); }

  struct Place {
    int64_t collective = 0;
    int step = 0;
    int peer = -1;
  };
  // Heartbeats of members that have stood there for so long.
  void Stand(const std::vector<Place>& places, absl::Duration stalled) {
    for (size_t i = 0; i < places.size(); ++i) {
      Replica& replica = world_.replicas()[i];
      replica.standing =
          Standing{world_.job().group, places[i].collective, places[i].step, places[i].peer, stalled};
    }
    for (size_t i = 0; i < places.size(); ++i) {
      world_.Hear(&world_.replicas()[i], stalled + absl::Seconds(1), {}, absl::Seconds(10));
    }
  }
  void ExpectGivenUp(int rank) {
    ASSERT_EQ(world_.job().phase, Phase::kRescaling);
    EXPECT_EQ(world_.killed(), std::set<std::string>{world_.replicas()[rank].id});
    EXPECT_EQ(world_.plan().members.size(), 2u);
    EXPECT_TRUE(world_.plan().broken);
    EXPECT_EQ(world_.job().failures, 0);
    // The others still wait until they hear of it: nobody else is to blame for that.
    world_.Pass(absl::Seconds(1));
    EXPECT_EQ(world_.killed().size(), 1u);
  }

  World world_;
};

TEST_F(StalledGroupTest, OfTwoThatDoNotReachEachOtherOneGoes) {
  // What each of the two has sent has reached the third one, which is in the next exchange.
  const std::vector<Place> places = {{7, 0, 1}, {7, 0, 0}, {8, 0, 0}};
  Stand(places, absl::Seconds(9));
  EXPECT_EQ(world_.job().phase, Phase::kRunning) << "they may be slow";
  Stand(places, absl::Seconds(10));
  ExpectGivenUp(1);
  EXPECT_EQ(world_.apart(), (std::pair<std::string, std::string>("n2", "n1")));
}

TEST_F(StalledGroupTest, WhoGetsNothingFromOneThatIsFurtherGoes) {
  Stand({{7, 1, 2}, {7, 3, 0}, {7, 2, 1}}, absl::Seconds(10));
  ExpectGivenUp(0);
  EXPECT_EQ(world_.apart(), (std::pair<std::string, std::string>("n1", "n3")));
}

TEST_F(StalledGroupTest, WhoHasStoppedBeforeItSentAnythingGoes) {
  Stand({{7, 0, 2}, {7, 0, 2}, {7, 0, -1}}, absl::Seconds(10));
  ExpectGivenUp(2);
  EXPECT_FALSE(world_.apart().has_value());
}

TEST_F(StalledGroupTest, WhoDoesNotComeToTheNextExchangeGoes) {
  Stand({{8, 0, 1}, {8, 0, -1}, {8, 0, 1}}, absl::Seconds(10));
  ExpectGivenUp(1);
}

TEST_F(StalledGroupTest, NobodyGoesWhereSomethingMoves) {
  Stand({{7, 0, 1}, {7, 0, 0}, {8, 0, 0}}, absl::Seconds(10) - absl::Nanoseconds(1));
  EXPECT_EQ(world_.job().phase, Phase::kRunning);
}

TEST_F(StalledGroupTest, NobodyGoesWhereAllWaitForSomethingElse) {
  Stand({{7, 0, -1}, {7, 0, -1}, {7, 0, -1}}, absl::Minutes(1));
  EXPECT_EQ(world_.job().phase, Phase::kRunning);
}

TEST_F(StalledGroupTest, NobodyGoesWhereOneDoesNotSay) {
  Stand({{7, 0, 1}, {7, 0, 0}}, absl::Minutes(1));
  world_.Hear(&world_.replicas()[2], absl::Minutes(1), {}, absl::Seconds(10));
  EXPECT_EQ(world_.job().phase, Phase::kRunning);
}

TEST(InPlaceTest, RoomThatOthersWaitForIsGivenUpFirst) {
  World world;
  world.places = 1;
  world.Start({"n1", "n2"});
  world.Want({"n2", "n3"});
  world.GoOn();
  world.places = 0;  // Others hold all that is free.
  world.Want({"n2", "n1"});
  EXPECT_FALSE(world.plan().offered);
  world.Pass(world.policy_.room_patience);
  EXPECT_TRUE(world.plan().offered);
  EXPECT_EQ(world.plan().members.size(), 1u);
  world.Enter(world.plan().group);
  EXPECT_FALSE(world.plan().offered);
  world.places = 1;
  world.GoOn();
  // To a node that is held for ever: it goes by its checkpoint, and waits there.
  world.places = 0;
  world.Want({"n3"});
  world.Pass(world.policy_.room_patience);
  EXPECT_EQ(world.job().phase, Phase::kStopping);
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
  const RescaleTimes times = {job.group, absl::Milliseconds(30), absl::Milliseconds(10),
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
