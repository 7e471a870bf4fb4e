// Jobs that wait for each other's slots on nodes of two: who is to go first.

#include "services/supervisor/jobs/deadlocks.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/jobs/planning.h"
#include "tests/services/supervisor/job_records.h"

namespace adaptdl::supervisor {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Nodes = std::vector<std::string>;

// Three nodes of two GPUs each, and jobs of one GPU per replica.
class Played {
 public:
  Played() {
    for (const char* id : {"n1", "n2", "n3"}) AddNode(id, 2);
  }

  void AddNode(const std::string& id, int gpus) {
    NodeEntry node;
    node.record.node.set_node_id(id);
    node.record.node.mutable_capacity()->set_gpus(gpus);
    transaction_.AddNode(std::move(node));
  }

  // A job that holds some nodes, and is to have others, on some of which newcomers are there already.
  JobEntry* Add(const Nodes& holds, const Nodes& wants, const Nodes& launched = {}) {
    JobRecord record = MakeJob(jobs_++);
    const std::string uid = record.uid();
    auto job = std::make_shared<v1::Job>(*record.job);
    v1::Resources one;
    one.set_gpus(1);
    *job->mutable_spec()->mutable_template_()->mutable_resources() = one;
    record.job = std::move(job);
    record.state.group = 1;
    record.state.allocation = holds;
    record.decision.nodes = wants;
    const std::vector<jobs::PlanMember> members = MembersOn(uid, 1, holds);
    const std::vector<jobs::PlanMember> newcomers = MembersOn(uid, 2, launched);
    const jobs::Target target = jobs::ChooseMembers(members, newcomers, wants, true);
    record.state.phase = jobs::Phase::kRescaling;
    record.state.plans = {{.group = 2, .members = target.members, .offered = target.newcomers() == 0}};
    transaction_.AddJob(std::move(record));
    JobEntry* entry = transaction_.EditJob(uid);
    AddReplicas(1, members, entry);
    AddReplicas(2, newcomers, entry);
    return entry;
  }

  Transaction* transaction() { return &transaction_; }
  std::set<std::string> Victims() const { return DeadlockVictims(transaction_); }

 private:
  static std::vector<jobs::PlanMember> MembersOn(const std::string& uid, int group, const Nodes& nodes) {
    std::vector<jobs::PlanMember> members;
    for (const std::string& node : nodes) {
      members.push_back({absl::StrCat(uid, "-", group, "-", members.size()), node});
    }
    return members;
  }
  static void AddReplicas(int group, const std::vector<jobs::PlanMember>& members, JobEntry* job) {
    for (const jobs::PlanMember& member : members) {
      auto replica = std::make_shared<ReplicaRecord>();
      replica->job_uid = job->record.uid();
      replica->replica.set_replica_id(member.replica_id);
      replica->replica.set_group(group);
      replica->replica.set_node_id(member.node);
      replica->replica.set_state(v1::REPLICA_STATE_RUNNING);
      job->replicas.push_back(std::move(replica));
    }
  }

  Tables tables_;
  Transaction transaction_{tables_, {absl::UnixEpoch(), absl::UnixEpoch()}};
  int jobs_ = 0;
};

class DeadlocksTest : public testing::Test, protected Played {};

TEST_F(DeadlocksTest, OfTwoThatWaitForEachOtherOneGoesFirst) {
  Add({"n1", "n1"}, {"n1", "n2"});
  Add({"n2", "n2"}, {"n2", "n1"});
  EXPECT_THAT(Victims(), ElementsAre("uid-0"));
}

TEST_F(DeadlocksTest, ItIsOneThatNeedNotStartAgain) {
  Add({"n1", "n1"}, {"n2"});
  Add({"n2", "n2"}, {"n2", "n1"});
  EXPECT_THAT(Victims(), ElementsAre("uid-1"));
}

TEST_F(DeadlocksTest, OrElseThoseWithTheFewestReplicas) {
  Add({"n1", "n1"}, {"n2", "n2"});
  Add({"n2"}, {"n1"});
  EXPECT_THAT(Victims(), ElementsAre("uid-1"));
  Add({"n2"}, {"n1"});
  EXPECT_THAT(Victims(), ElementsAre("uid-1", "uid-2"));
}

// What a job needs at least is not given up where another one may shrink.
TEST_F(DeadlocksTest, AJobOfFixedSizeDoesNotShrink) {
  Add({"n1", "n1"}, {"n1", "n2"})->record.state.min_replicas = 2;
  Add({"n2", "n2"}, {"n2", "n1"});
  EXPECT_THAT(Victims(), ElementsAre("uid-1"));
}

TEST_F(DeadlocksTest, CirclesOfThreeAndTwoCirclesAreBroken) {
  Add({"n1", "n1"}, {"n1", "n2"});
  Add({"n2", "n2"}, {"n2", "n3"});
  Add({"n3", "n3"}, {"n3", "n1"});
  EXPECT_EQ(Victims().size(), 1u);
  AddNode("m1", 1);
  AddNode("m2", 1);
  Add({"m1"}, {"m2"});
  Add({"m2"}, {"m1"});
  EXPECT_EQ(Victims().size(), 2u);
}

TEST_F(DeadlocksTest, WhoWaitsForSomebodyThatLeavesWaits) {
  Add({"n1", "n1"}, {"n1", "n2"});
  Add({"n2", "n2"}, {"n2"});  // Offered: it leaves when it has changed over.
  EXPECT_THAT(Victims(), IsEmpty());
}

// The first and the third one would have room, were it not for the second, which waits for what the first one is to leave:
// whoever of them gets the slot that is free, it is not for now that somebody has to go.
TEST_F(DeadlocksTest, WhoMayYetGetWhatIsFreeWaits) {
  Add({"n1"}, {"n2"});
  Add({"n2"}, {"n1"});
  Add({"n3"}, {"n2"});
  Add({"n1"}, {"n1"});
  EXPECT_THAT(Victims(), IsEmpty());
}

TEST_F(DeadlocksTest, WhoDidNotGetItDoesNot) {
  Add({"n1"}, {"n2"});
  Add({"n2"}, {"n1"});
  Add({"n3"}, {"n2", "n3"}, {"n2"});
  Add({"n1"}, {"n1"});
  EXPECT_THAT(Victims(), ElementsAre("uid-0"));
}

TEST_F(DeadlocksTest, WhoWaitsForACircleIsNotPartOfIt) {
  Add({"n3", "n3"}, {"n3", "n2"});
  Add({"n1", "n1"}, {"n1", "n2"});
  Add({"n2", "n2"}, {"n1"});
  EXPECT_THAT(Victims(), ElementsAre("uid-1"));
}

TEST_F(DeadlocksTest, MoreThanThereIsIsNoCircle) {
  Add({"n1", "n1"}, {"n1", "n2"});
  Add({"n2", "n2"}, {"n2", "n2", "n1"});
  EXPECT_THAT(Victims(), IsEmpty());
}

TEST_F(DeadlocksTest, ThoseThatAreLaunchedOrOnTheirWayOutDoNotWait) {
  JobEntry* job = Add({"n1", "n1"}, {"n1", "n2"});
  Add({"n2", "n2"}, {"n2", "n1"});
  transaction()->EditReplica("uid-1", 1)->stop_requested = true;
  EXPECT_THAT(Victims(), IsEmpty());
  transaction()->EditReplica("uid-1", 1)->stop_requested = false;
  EXPECT_THAT(Victims(), ElementsAre("uid-0"));
  job->record.state.plans.back().members.back().replica_id = "uid-0-2-1";
  EXPECT_THAT(Victims(), IsEmpty());
}

// A cluster that goes on by itself, as slots become free.
struct PlayedJob {
  Nodes holds;
  Nodes wants;
  // Where newcomers are.
  Nodes launched;
  // Whether it may not have fewer replicas than it is to have.
  bool fixed = false;

  bool settled() const { return jobs::SameNodes(holds, wants); }
  auto operator<=>(const PlayedJob&) const = default;  // NOLINT(modernize-use-nullptr): the linter's mistake
};
using PlayedCluster = std::vector<PlayedJob>;

Nodes Without(Nodes nodes, const Nodes& others) {
  for (const std::string& other : others) {
    const auto it = std::find(nodes.begin(), nodes.end(), other);
    if (it != nodes.end()) nodes.erase(it);
  }
  return nodes;
}

bool HasRoom(const PlayedCluster& cluster, const std::string& node) {
  int64_t held = 0;
  for (const PlayedJob& job : cluster) {
    held += std::count(job.holds.begin(), job.holds.end(), node) +
            std::count(job.launched.begin(), job.launched.end(), node);
  }
  return held < 2;
}

// All that may come next: a newcomer is launched, or a job of which all are there leaves what it is to leave.
std::vector<PlayedCluster> Next(const PlayedCluster& cluster) {
  std::vector<PlayedCluster> next;
  for (size_t i = 0; i < cluster.size(); ++i) {
    const PlayedJob& job = cluster[i];
    if (job.settled()) continue;
    const Nodes lacks = Without(Without(job.wants, job.holds), job.launched);
    for (const std::string& node : lacks) {
      if (!HasRoom(cluster, node)) continue;
      next.push_back(cluster);
      next.back()[i].launched.push_back(node);
    }
    if (!lacks.empty()) continue;
    next.push_back(cluster);
    next.back()[i].holds = job.wants;
    next.back()[i].launched.clear();
  }
  return next;
}

bool AllSettled(const PlayedCluster& cluster) {
  return std::all_of(cluster.begin(), cluster.end(), [](const PlayedJob& job) { return job.settled(); });
}

// Whether luck alone may bring all to where they are to be.
bool CanSettle(const PlayedCluster& cluster, std::set<PlayedCluster>* seen) {
  if (AllSettled(cluster)) return true;
  if (!seen->insert(cluster).second) return false;
  for (const PlayedCluster& next : Next(cluster)) {
    if (CanSettle(next, seen)) return true;
  }
  return false;
}

// Nodes for this many replicas at most, of those that `free` says are left, which they are taken from.
Nodes Take(int most, std::mt19937* random, Nodes* free) {
  std::shuffle(free->begin(), free->end(), *random);
  const auto first = free->end() - std::min<int64_t>(most, std::ssize(*free));
  Nodes taken(first, free->end());
  free->erase(first, free->end());
  std::sort(taken.begin(), taken.end());
  return taken;
}

PlayedCluster RandomCluster(std::mt19937* random) {
  const auto pick = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(*random);
  };
  Nodes held = {"n1", "n1", "n2", "n2", "n3", "n3"};
  Nodes wanted = held;
  PlayedCluster cluster;
  for (int i = pick(2, 4); i > 0; --i) {
    PlayedJob job;
    job.holds = Take(pick(1, 3), random, &held);
    job.wants = Take(pick(1, 3), random, &wanted);
    job.fixed = pick(0, 2) == 0;
    if (!job.holds.empty() && !job.wants.empty()) cluster.push_back(std::move(job));
  }
  return cluster;
}

std::set<std::string> VictimsIn(const PlayedCluster& cluster) {
  Played played;
  for (const PlayedJob& job : cluster) {
    JobEntry* entry = played.Add(job.holds, job.wants, job.launched);
    if (job.fixed) entry->record.state.min_replicas = static_cast<int>(job.wants.size());
    // One that has given up all it had.
    if (job.holds.empty()) entry->record.state.phase = jobs::Phase::kPending;
  }
  return played.Victims();
}

std::string Describe(const PlayedCluster& cluster) {
  std::string text;
  for (const PlayedJob& job : cluster) {
    absl::StrAppend(&text, "; ", absl::StrJoin(job.holds, " "), " + ", absl::StrJoin(job.launched, " "),
                    " -> ", absl::StrJoin(job.wants, " "), job.fixed ? " fixed" : "");
  }
  return text;
}

// Of the job in the cluster, by its uid.
int IndexOf(const std::string& uid) { return std::stoi(uid.substr(uid.rfind('-') + 1)); }

void GiveUp(PlayedJob* job) {
  const Nodes staying = Without(job->holds, Without(job->holds, job->wants));
  const bool shrinks = !staying.empty() && !job->fixed;
  job->holds = shrinks ? staying : Nodes();
  if (!shrinks) job->launched.clear();
}

TEST(DeadlocksProperty, NobodyGoesInVainAndAllSettle) {
  int victims_seen = 0;
  for (int seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(seed);
    PlayedCluster cluster = RandomCluster(&random);
    for (int step = 0; !AllSettled(cluster); ++step) {
      ASSERT_LT(step, 100) << "does not come to rest";
      const std::set<std::string> victims = VictimsIn(cluster);
      for (const std::string& needed : victims) {
        PlayedCluster without = cluster;
        for (const std::string& victim : victims) {
          if (victim != needed) GiveUp(&without[IndexOf(victim)]);
        }
        std::set<PlayedCluster> seen;
        ASSERT_FALSE(CanSettle(without, &seen))
            << needed << " need not go, in " << testing::PrintToString(victims) << Describe(cluster);
      }
      for (const std::string& victim : victims) GiveUp(&cluster[IndexOf(victim)]);
      victims_seen += static_cast<int>(victims.size());
      std::vector<PlayedCluster> next = Next(cluster);
      if (victims.empty()) {
        ASSERT_FALSE(next.empty()) << "all wait, and nobody is to go";
      }
      if (!next.empty()) cluster = next[random() % next.size()];
    }
  }
  EXPECT_GT(victims_seen, 50);
}

}  // namespace
}  // namespace adaptdl::supervisor
