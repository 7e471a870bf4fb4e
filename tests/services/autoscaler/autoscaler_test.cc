// The loop against a supervisor and an allocator over real gRPC, with a provider of pretended nodes.

#include "services/autoscaler/autoscaler.h"

#include <memory>
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
    options_.limits = {.pool = "local", .min_nodes = 1, .max_nodes = 4, .cooldown = absl::Seconds(60)};
    options_.restart = {
        .stable = absl::Seconds(10), .first_delay = absl::Seconds(1), .max_delay = absl::Seconds(60)};
    Restart();
  }

  std::unique_ptr<rpc::Endpoints> Cluster() const {
    return std::make_unique<rpc::Endpoints>(std::vector<std::string>{cluster_.address()}, rpc::Plaintext());
  }
  // A new autoscaler in the same world.
  void Restart() {
    registry_ = std::make_shared<prometheus::Registry>();
    autoscaler_ = std::make_unique<Autoscaler>(
        options_, Autoscaler::Dependencies{&provider_, &client_, &board_, &clock_, registry_});
  }

  v1::NodePool Round() {
    autoscaler_->RoundForTest();
    return board_.Get();
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
  EXPECT_THAT(pool.reason(), HasSubstr("because"));
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
  // The allocator says nothing about other sizes, and nobody said what a node costs.
  EXPECT_THAT(Metrics(), HasSubstr("adaptdl_autoscaler_utility{pool=\"local\"} Nan"));
  EXPECT_THAT(Metrics(), Not(HasSubstr("adaptdl_autoscaler_cost_per_hour")));
}

TEST_F(AutoscalerTest, TellsUtilityAndCost) {
  options_.limits.target.node_price_per_hour = 0.5;
  Restart();
  cluster_.SetUtilities({1, 0.75, 0.5});
  GrowTo(3);
  Round();
  EXPECT_THAT(Metrics(), HasSubstr("adaptdl_autoscaler_utility{pool=\"local\"} 0.5"));
  EXPECT_THAT(Metrics(), HasSubstr("adaptdl_autoscaler_cost_per_hour{pool=\"local\"} 1.5"));
}

TEST_F(AutoscalerTest, DrainsIdleNodesAfterTheCoolDownAndRemovesThem) {
  GrowTo(3);
  cluster_.SetNode("local-1", v1::NODE_PHASE_READY, 0);
  cluster_.SetDesired(1, {"local-1"});
  EXPECT_TRUE(Round().has_cooldown_end_time());
  EXPECT_THAT(cluster_.drained(), IsEmpty());
  clock_.Advance(absl::Seconds(60));
  EXPECT_EQ(Round().target_nodes(), 2);
  ASSERT_EQ(cluster_.drained().size(), 1u);
  EXPECT_THAT(cluster_.drained()["local-1"], HasSubstr("because"));
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
  options_.limits.max_nodes = 2;
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

TEST_F(AutoscalerTest, TheLoopRunsUntilItIsStopped) {
  options_.poll_period = absl::Milliseconds(10);
  Restart();
  cluster_.SetDesired(2);
  autoscaler_->Start();
  while (board_.Get().current_nodes() != 2) {
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
