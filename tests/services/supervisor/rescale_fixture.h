// Jobs of one or two replicas that change in place, on nodes n1 and n2, with replicas that are played.

#ifndef ADAPTDL_TESTS_SERVICES_SUPERVISOR_RESCALE_FIXTURE_H_
#define ADAPTDL_TESTS_SERVICES_SUPERVISOR_RESCALE_FIXTURE_H_

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tests/services/supervisor/cluster_fixture.h"
#include "tests/services/supervisor/replica_calls.h"

namespace adaptdl::supervisor {

class RescaleTest : public ClusterTest {
 protected:
  std::unique_ptr<JobStore> MakeStore() override {
    SqliteJobStoreOptions options;
    options.folder = folder_.path();
    auto store = SqliteJobStore::Open(options);
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }

  // A replica that is played.
  struct Player {
    v1::LaunchReplica launch;
    v1::ReplicaIdentity identity;
    std::string token;
    std::string address;
    std::unique_ptr<Join> join;
    std::unique_ptr<Heart> heart;
  };

  Player Play(const v1::LaunchReplica& launch, const std::string& address) {
    Player player{launch, IdentityOf(launch), launch.token(), address, nullptr, nullptr};
    player.join = std::make_unique<Join>(replicas_.get(), player.identity, player.token, address, true);
    return player;
  }
  // Goes on as a member of `formed`: opens a stream for it.
  void Enter(Player* player, const v1::GroupFormed& formed) {
    player->identity.set_group(formed.group());
    if (!formed.token().empty()) player->token = formed.token();
    player->heart = std::make_unique<Heart>(replicas_.get(), player->identity, player->token);
    player->heart->BeatWithoutProgress();
    player->heart->Next();
  }

  void SetUp() override {
    // Nodes are not what these tests lose.
    options_.cluster.heartbeat_period = absl::Minutes(1);
    options_.cluster.quarantine.first = absl::Seconds(30);
    ClusterTest::SetUp();
    n1_ = AddWorker("n1");
    n2_ = AddWorker("n2");
  }
  void TearDown() override {
    n1_ = nullptr;
    n2_ = nullptr;
    ClusterTest::TearDown();
  }

  // Job "a", whose group 1 trains with one replica on n1.
  void StartOne(const v1::Job& spec = NewJob("a")) {
    job_ = Submit(spec);
    Allocate(job_, {"n1"});
    first_ = Play(n1_->NextLaunch(), "n1:1");
    n1_->Running(first_.launch);
    WaitForPhase("a", v1::JOB_PHASE_RUNNING);
    Enter(&first_, first_.join->Formed());
  }
  // The same with a second one on n2.
  void StartTwo(const v1::Job& spec = NewJob("a")) {
    job_ = Submit(spec);
    Allocate(job_, {"n1", "n2"});
    first_ = Play(n1_->NextLaunch(), "n1:1");
    second_ = Play(n2_->NextLaunch(), "n2:1");
    n1_->Running(first_.launch);
    n2_->Running(second_.launch);
    WaitForPhase("a", v1::JOB_PHASE_RUNNING);
    Enter(&first_, first_.join->Formed());
    Enter(&second_, second_.join->Formed());
  }

  TemporaryFolder folder_;
  std::unique_ptr<FakeWorker> n1_;
  std::unique_ptr<FakeWorker> n2_;
  v1::Job job_;
  Player first_;
  Player second_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_TESTS_SERVICES_SUPERVISOR_RESCALE_FIXTURE_H_
