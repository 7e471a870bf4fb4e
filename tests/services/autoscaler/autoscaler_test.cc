// The loop against a supervisor and an allocator over real gRPC, with a provider of pretended nodes.

#include "services/autoscaler/autoscaler.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"
#include "libs/base/manual_clock.h"
#include "libs/rpc/channel.h"
#include "prometheus/text_serializer.h"
#include "services/autoscaler/providers/fake_node_pool_provider.h"
#include "tests/services/autoscaler/fake_cluster.h"

namespace adaptdl::autoscaler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;

class AutoscalerTest : public ::testing::Test {
 protected:
  AutoscalerTest() : client_(Cluster(), Cluster(), absl::Seconds(30)) {
    pool_.name = "local";
    pool_.min_nodes = 1;
    pool_.max_nodes = 4;
    target_.cooldown = absl::Seconds(60);
    options_.keeper.restart = {
        .stable = absl::Seconds(10), .first_delay = absl::Seconds(1), .max_delay = absl::Seconds(60)};
    Restart();
  }

  std::unique_ptr<rpc::Endpoints> Cluster() const {
    return std::make_unique<rpc::Endpoints>(std::vector<std::string>{cluster_.address()}, rpc::Plaintext());
  }
  // A new autoscaler in the same world.
  void Restart() {
    registry_ = std::make_shared<prometheus::Registry>();
    PoolSet set;
    set.target = target_;
    set.drain_timeout = drain_timeout_;
    pool_.provider = Unowned(&provider_);
    set.pools = {pool_};
    if (spot_.has_value()) {
      spot_->provider = Unowned(&spot_provider_);
      set.pools.push_back(*spot_);
    }
    pools_ = std::make_unique<FixedPools>(set);
    autoscaler_ = std::make_unique<Autoscaler>(
        options_, Autoscaler::Dependencies{pools_.get(), &client_, &board_, &clock_, registry_});
  }

  static std::shared_ptr<NodePoolProvider> Unowned(NodePoolProvider* provider) {
    return {provider, [](NodePoolProvider*) {}};
  }

  v1::NodePool Round() {
    autoscaler_->RoundForTest();
    return board_.Get().front();
  }

  // `count` nodes that run, grown by the autoscaler itself.
  void GrowTo(int count) {
    cluster_.SetDesired(count);
    Round();
    for (const auto& [id, state] : provider_.nodes) cluster_.SetNode(id, v1::NODE_PHASE_READY, 1);
    ASSERT_EQ(static_cast<int>(provider_.nodes.size()), count);
  }

  std::string Metrics() { return prometheus::TextSerializer().Serialize(registry_->Collect()); }

  FakeCluster cluster_;
  ClusterClient client_;
  FakeNodePoolProvider provider_;
  FakeNodePoolProvider spot_provider_{"spot"};
  ManagedPool pool_;
  std::optional<ManagedPool> spot_;
  nodepools::Target target_;
  std::optional<absl::Duration> drain_timeout_;
  std::unique_ptr<FixedPools> pools_;
  PoolBoard board_;
  ManualClock clock_;
  AutoscalerOptions options_;
  std::shared_ptr<prometheus::Registry> registry_;
  std::unique_ptr<Autoscaler> autoscaler_;
};

TEST_F(AutoscalerTest, BringsThePoolToWhatTheAllocatorWants) {
  cluster_.SetDesired(3);
  v1::NodePool pool = Round();
  EXPECT_THAT(provider_.starts, ElementsAre("local-0", "local-1", "local-2"));
  EXPECT_EQ(pool.name(), "local");
  EXPECT_EQ(pool.provider(), "fake");
  EXPECT_EQ(pool.min_nodes(), 1);
  EXPECT_EQ(pool.max_nodes(), 4);
  EXPECT_EQ(pool.target_nodes(), 3);
  EXPECT_THAT(pool.reason(), HasSubstr("3 jobs"));
  EXPECT_EQ(pool.last_error(), "");
  pool = Round();
  EXPECT_EQ(pool.current_nodes(), 3);
  EXPECT_EQ(pool.nodes(0).state(), v1::POOL_NODE_STATE_STARTING);
  cluster_.SetNode("local-0", v1::NODE_PHASE_READY);
  pool = Round();
  EXPECT_EQ(pool.nodes(0).state(), v1::POOL_NODE_STATE_RUNNING);
  EXPECT_THAT(Metrics(), HasSubstr("adaptdl_autoscaler_nodes{pool=\"local\",state=\"running\"} 1"));
  EXPECT_THAT(Metrics(), HasSubstr("adaptdl_autoscaler_actions_total{action=\"start\",pool=\"local\"} 3"));
  EXPECT_THAT(Metrics(), HasSubstr("adaptdl_autoscaler_target_nodes{pool=\"local\"} 3"));
  // Nobody said what a node costs.
  EXPECT_THAT(Metrics(), Not(HasSubstr("adaptdl_autoscaler_cost_per_hour")));
}

TEST_F(AutoscalerTest, TellsUtilityAndCost) {
  pool_.price_per_hour = 0.5;
  Restart();
  EXPECT_THAT(Metrics(), HasSubstr("adaptdl_autoscaler_utility Nan"));
  GrowTo(3);
  cluster_.SetDesired(2);
  Round();
  EXPECT_THAT(Metrics(), HasSubstr("adaptdl_autoscaler_utility 0.666"));
  EXPECT_THAT(Metrics(), HasSubstr("adaptdl_autoscaler_cost_per_hour{pool=\"local\"} 1.5"));
}

TEST_F(AutoscalerTest, DrainsIdleNodesAfterTheCoolDownAndRemovesThem) {
  GrowTo(3);
  cluster_.SetNode("local-1", v1::NODE_PHASE_READY, 0);
  cluster_.SetDesired(2, {"local-1"});
  EXPECT_TRUE(Round().has_cooldown_end_time());
  EXPECT_THAT(cluster_.drained(), IsEmpty());
  clock_.Advance(absl::Seconds(60));
  EXPECT_EQ(Round().target_nodes(), 2);
  ASSERT_EQ(cluster_.drained().size(), 1u);
  EXPECT_THAT(cluster_.drained()["local-1"], HasSubstr("2 jobs"));
  // Drained and empty: stopped, then forgotten by the supervisor, too.
  Round();
  EXPECT_THAT(provider_.stops, ElementsAre("local-1"));
  const v1::NodePool pool = Round();
  EXPECT_EQ(pool.current_nodes(), 2);
  EXPECT_FALSE(cluster_.nodes().contains("local-1"));
  EXPECT_TRUE(cluster_.every_change_had_a_request_id());
  EXPECT_THAT(Metrics(), HasSubstr("adaptdl_autoscaler_actions_total{action=\"drain\",pool=\"local\"} 1"));
  EXPECT_THAT(Metrics(), HasSubstr("adaptdl_autoscaler_actions_total{action=\"remove\",pool=\"local\"} 1"));
}

TEST_F(AutoscalerTest, NodesThatOthersEndAreLetGoAndNotDrained) {
  provider_.gentle = true;
  GrowTo(2);
  cluster_.SetNode("local-1", v1::NODE_PHASE_READY, 0);
  cluster_.SetDesired(1, {"local-1"});
  Round();
  EXPECT_THAT(provider_.kept, ElementsAre(Pair("local-0", false), Pair("local-1", true)));
  clock_.Advance(absl::Seconds(60));
  Round();
  EXPECT_THAT(provider_.stops, ElementsAre("local-1"));
  EXPECT_THAT(provider_.kept, ElementsAre(Pair("local-0", false)));
  EXPECT_THAT(cluster_.drained(), IsEmpty());
  Round();
  EXPECT_TRUE(cluster_.nodes().contains("local-1")) << "it is for others to say that it is gone";
}

TEST_F(AutoscalerTest, NodesThatWorkAreDrainedWhoeverEndsThem) {
  provider_.gentle = true;
  GrowTo(3);
  pool_.max_nodes = 2;
  Restart();
  clock_.Advance(absl::Seconds(60));
  Round();
  EXPECT_THAT(provider_.stops, IsEmpty());
  EXPECT_THAT(cluster_.drained(), ElementsAre(Pair("local-2", HasSubstr("at most 2"))));
}

TEST_F(AutoscalerTest, SaysWhatKeepsNodesFromComing) {
  GrowTo(1);
  provider_.hindrance = "waits for a node for 10m: no machines left";
  EXPECT_THAT(Round().reason(), HasSubstr("local-0 waits for a node for 10m: no machines left"));
}

TEST_F(AutoscalerTest, ADrainingNodeThatIsNotEmptyStays) {
  GrowTo(2);
  cluster_.SetNode("local-1", v1::NODE_PHASE_DRAINING, 1);
  const v1::NodePool pool = Round();
  EXPECT_THAT(provider_.stops, IsEmpty());
  EXPECT_EQ(pool.nodes(1).state(), v1::POOL_NODE_STATE_DRAINING);
}

TEST_F(AutoscalerTest, ASlowStopIsSeenThroughOnce) {
  provider_.slow_stop = true;
  GrowTo(2);
  cluster_.SetDesired(1);
  cluster_.SetNode("local-1", v1::NODE_PHASE_DRAINING, 0);
  Round();
  Round();
  EXPECT_TRUE(cluster_.nodes().contains("local-1"));
  provider_.nodes.erase("local-1");
  Round();
  EXPECT_FALSE(cluster_.nodes().contains("local-1"));
}

TEST_F(AutoscalerTest, WithoutTheAllocatorThePoolStaysAndSaysSo) {
  GrowTo(3);
  cluster_.SetAllocatorAway(true);
  clock_.Advance(absl::Hours(1));
  const v1::NodePool pool = Round();
  EXPECT_EQ(pool.target_nodes(), 3);
  EXPECT_THAT(pool.last_error(), HasSubstr("allocator"));
  EXPECT_THAT(cluster_.drained(), IsEmpty());
  EXPECT_THAT(Metrics(), HasSubstr("adaptdl_autoscaler_errors_total{pool=\"local\",source=\"allocator\"} 1"));
  cluster_.SetAllocatorAway(false);
  EXPECT_EQ(Round().last_error(), "");
}

TEST_F(AutoscalerTest, WithoutTheSupervisorThePoolStaysAndSaysSo) {
  GrowTo(3);
  Round();
  cluster_.SetDesired(0, {"local-0", "local-1", "local-2"});
  cluster_.SetSupervisorAway(true);
  clock_.Advance(absl::Hours(1));
  const v1::NodePool pool = Round();
  EXPECT_EQ(pool.target_nodes(), 3);
  EXPECT_THAT(pool.last_error(), HasSubstr("supervisor"));
  EXPECT_EQ(pool.nodes(0).state(), v1::POOL_NODE_STATE_RUNNING);  // as it was seen last
  EXPECT_THAT(provider_.stops, IsEmpty());
}

TEST_F(AutoscalerTest, AfterItsOwnRestartItGoesOnWithTheNodesItFinds) {
  GrowTo(3);
  Restart();
  const v1::NodePool pool = Round();
  EXPECT_EQ(pool.current_nodes(), 3);
  EXPECT_EQ(provider_.starts.size(), 3u);
  EXPECT_TRUE(pool.has_cooldown_end_time());  // the start counts as a change
}

TEST_F(AutoscalerTest, AClusterThatWasDownComesBackUnderItsOldIds) {
  // Drained by whoever brought it down; lost; and with a lease that has not run out yet.
  cluster_.SetNode("local-0", v1::NODE_PHASE_DRAINING, 0);
  cluster_.SetNode("local-1", v1::NODE_PHASE_LOST, 0);
  cluster_.SetNode("local-2", v1::NODE_PHASE_READY, 0);
  cluster_.SetDesired(3);
  Round();
  EXPECT_THAT(provider_.starts, ElementsAre("local-0", "local-1", "local-2"));
  EXPECT_FALSE(cluster_.nodes().contains("local-0"));
  EXPECT_FALSE(cluster_.nodes().contains("local-1"));
}

TEST_F(AutoscalerTest, StartsADeadNodeAgain) {
  GrowTo(2);
  clock_.Advance(absl::Seconds(30));
  provider_.nodes["local-0"] = ProvidedState::kDead;
  provider_.starts.clear();
  Round();
  EXPECT_THAT(provider_.starts, ElementsAre("local-0"));
  EXPECT_EQ(provider_.nodes["local-0"], ProvidedState::kAlive);
  EXPECT_THAT(Metrics(), HasSubstr("adaptdl_autoscaler_actions_total{action=\"restart\",pool=\"local\"} 1"));
}

TEST_F(AutoscalerTest, BacksOffFromANodeThatDiesAtOnce) {
  GrowTo(1);
  provider_.nodes["local-0"] = ProvidedState::kDead;
  provider_.starts.clear();
  EXPECT_THAT(Round().last_error(), HasSubstr("local-0 died 1 times at once"));
  EXPECT_THAT(provider_.starts, IsEmpty());
  clock_.Advance(absl::Seconds(1));
  Round();
  EXPECT_THAT(provider_.starts, ElementsAre("local-0"));
  provider_.nodes["local-0"] = ProvidedState::kDead;
  Round();
  clock_.Advance(absl::Seconds(1));
  Round();
  EXPECT_EQ(provider_.starts.size(), 1u);
  clock_.Advance(absl::Seconds(1));
  Round();
  EXPECT_EQ(provider_.starts.size(), 2u);
}

TEST_F(AutoscalerTest, ADeadNodeThatHasDrainedIsNotStartedAgain) {
  GrowTo(2);
  clock_.Advance(absl::Seconds(30));
  cluster_.SetDesired(1);
  provider_.nodes["local-1"] = ProvidedState::kDead;
  cluster_.SetNode("local-1", v1::NODE_PHASE_DRAINING, 0);
  provider_.starts.clear();
  Round();
  EXPECT_THAT(provider_.starts, IsEmpty());
  EXPECT_THAT(provider_.stops, ElementsAre("local-1"));
}

TEST_F(AutoscalerTest, ErrorsOfTheProviderAreToldAndCounted) {
  provider_.start_error = absl::ResourceExhaustedError("no more processes");
  EXPECT_THAT(Round().last_error(), HasSubstr("start another node: no more processes"));
  provider_.list_error = absl::InternalError("the folder is gone");
  EXPECT_THAT(Round().last_error(), HasSubstr("the folder is gone"));
  EXPECT_THAT(Metrics(), HasSubstr("adaptdl_autoscaler_errors_total{pool=\"local\",source=\"provider\"} 2"));
  provider_.start_error = provider_.list_error = absl::OkStatus();
  EXPECT_EQ(Round().last_error(), "");
  EXPECT_EQ(provider_.nodes.size(), 1u);
}

TEST_F(AutoscalerTest, ReadsAllPagesOfNodes) {
  for (int i = 0; i < 7; ++i) cluster_.SetNode(absl::StrCat("hand-", i), v1::NODE_PHASE_READY, 0, "");
  cluster_.SetDesired(9);
  EXPECT_EQ(Round().target_nodes(), 2);
}

// A pool for 1 an hour, and spot for 0.3.
class AutoscalerWithSpotTest : public AutoscalerTest {
 protected:
  AutoscalerWithSpotTest() {
    pool_.min_nodes = 0;
    pool_.price_per_hour = 1;
    spot_.emplace();
    spot_->name = "spot";
    spot_->max_nodes = 2;
    spot_->price_per_hour = 0.3;
    spot_->preemptible = true;
    Restart();
  }

  v1::NodePool Spot() { return board_.Get().back(); }
};

TEST_F(AutoscalerWithSpotTest, TheCheaperPoolComesFirst) {
  cluster_.SetDesired(3);
  Round();
  EXPECT_THAT(spot_provider_.starts, ElementsAre("spot-0", "spot-1"));
  EXPECT_THAT(provider_.starts, ElementsAre("local-0"));
}

TEST_F(AutoscalerWithSpotTest, APoolWithoutCapacityIsReplacedAndAskedAgainLater) {
  spot_provider_.start_error = absl::ResourceExhaustedError("no spot instances in any zone");
  cluster_.SetDesired(2);
  Round();
  ASSERT_EQ(Spot().conditions_size(), 1);
  EXPECT_EQ(Spot().conditions(0).type(), "InsufficientCapacity");
  EXPECT_EQ(Spot().conditions(0).message(), "no spot instances in any zone");
  EXPECT_EQ(Spot().conditions(0).next_attempt_time().seconds(),
            absl::ToUnixSeconds(clock_.Now() + absl::Seconds(30)));
  Round();
  EXPECT_THAT(provider_.starts, ElementsAre("local-0", "local-1"));
  EXPECT_EQ(spot_provider_.starts.size(), 1u);
  spot_provider_.start_error = absl::OkStatus();
  clock_.Advance(absl::Seconds(30));
  Round();
  EXPECT_THAT(spot_provider_.starts, ElementsAre("spot-0", "spot-0", "spot-1"));
  Round();
  EXPECT_EQ(Spot().conditions_size(), 0);
}

TEST_F(AutoscalerWithSpotTest, ANodeThatItsCloudTakesIsReplacedAtOnceAndNotStartedAgain) {
  cluster_.SetDesired(1);
  Round();
  cluster_.SetNode("spot-0", v1::NODE_PHASE_DRAINING, 1, "spot");
  Round();
  EXPECT_THAT(spot_provider_.starts, ElementsAre("spot-0", "spot-1"));
  spot_provider_.nodes["spot-0"] = ProvidedState::kDead;
  clock_.Advance(absl::Minutes(1));
  Round();
  EXPECT_THAT(spot_provider_.stops, ElementsAre("spot-0"));
  EXPECT_EQ(spot_provider_.starts.size(), 2u);
}

TEST_F(AutoscalerWithSpotTest, AProviderWithoutAnAnswerHoldsUpItsOwnPoolOnly) {
  cluster_.SetDesired(2);
  Round();
  spot_provider_.list_error = absl::UnavailableError("the cloud is away");
  cluster_.SetDesired(3);
  Round();
  EXPECT_THAT(Spot().last_error(), HasSubstr("the cloud is away"));
  EXPECT_THAT(provider_.starts, ElementsAre("local-0")) << "the two of the other pool are still there";
}

TEST_F(AutoscalerWithSpotTest, ReportsPoolsNodesAndWhatWasDecided) {
  cluster_.SetDesired(1);
  Round();
  Round();
  const v1::ReportNodePoolsRequest report = cluster_.report();
  EXPECT_EQ(report.pools_size(), 2);
  ASSERT_EQ(report.nodes_size(), 1);
  EXPECT_EQ(report.nodes(0).node_id(), "spot-0");
  EXPECT_EQ(report.nodes(0).pool(), "spot");
  EXPECT_EQ(report.nodes(0).price_per_hour(), 0.3);
  EXPECT_TRUE(report.nodes(0).preemptible());
  EXPECT_EQ(report.nodes(0).create_time().seconds(), absl::ToUnixSeconds(clock_.Now()));
  ASSERT_EQ(cluster_.events().size(), 1u);
  EXPECT_EQ(cluster_.events()[0].reason(), "Grow");
  EXPECT_THAT(cluster_.events()[0].message(), HasSubstr("1 job, 1 of them waiting"));
  EXPECT_EQ(cluster_.events()[0].node_ids(0), "spot-0");
}

TEST_F(AutoscalerWithSpotTest, WhatTheSupervisorMissedIsToldWhenItIsBack) {
  cluster_.SetDesired(1);
  cluster_.SetSupervisorAway(true);
  pool_.min_nodes = 1;
  Restart();
  Round();
  EXPECT_TRUE(cluster_.events().empty());
  cluster_.SetSupervisorAway(false);
  Round();
  EXPECT_FALSE(cluster_.events().empty());
}

TEST_F(AutoscalerTest, ANodeThatDrainsForTooLongIsTakenAway) {
  drain_timeout_ = absl::Minutes(5);
  Restart();
  GrowTo(2);
  cluster_.SetDesired(1);
  cluster_.SetNode("local-1", v1::NODE_PHASE_DRAINING, 1);
  Round();
  clock_.Advance(absl::Minutes(5) - absl::Seconds(1));
  Round();
  EXPECT_THAT(provider_.stops, IsEmpty());
  clock_.Advance(absl::Seconds(1));
  Round();
  EXPECT_THAT(provider_.stops, ElementsAre("local-1"));
}

TEST_F(AutoscalerTest, TheLoopRunsUntilItIsStopped) {
  options_.poll_period = absl::Milliseconds(10);
  Restart();
  cluster_.SetDesired(2);
  autoscaler_->Start();
  while (board_.Get().front().current_nodes() != 2) {
  }
  autoscaler_->Stop();
  EXPECT_EQ(provider_.nodes.size(), 2u);  // they stay
}

TEST_F(AutoscalerTest, TheServiceShowsTheBoard) {
  AutoscalerService service(&board_);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  const auto stub =
      v1::AutoscalerService::NewStub(rpc::CreateChannel(absl::StrCat("127.0.0.1:", port), rpc::Plaintext()));
  const auto list = [&] {
    grpc::ClientContext context;
    rpc::SetTimeout(&context, absl::Seconds(30));
    v1::ListNodePoolsResponse response;
    EXPECT_TRUE(stub->ListNodePools(&context, {}, &response).ok());
    return response;
  };
  EXPECT_EQ(list().node_pools(0).reason(), "not looked at yet");
  cluster_.SetDesired(2);
  Round();
  EXPECT_EQ(list().node_pools_size(), 1);
  EXPECT_EQ(list().node_pools(0).target_nodes(), 2);
}

}  // namespace
}  // namespace adaptdl::autoscaler
