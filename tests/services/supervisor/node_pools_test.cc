// Node pools over gRPC: what an autoscaler reports reaches nodes, jobs, costs and people, and survives what it should.

#include <memory>
#include <string>
#include <vector>

#include "adaptdl/v1/node_pool_service.grpc.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "prometheus/registry.h"
#include "prometheus/text_serializer.h"
#include "tests/services/supervisor/cluster_fixture.h"

namespace adaptdl::supervisor {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class NodePoolsTest : public ClusterTest {
 protected:
  std::unique_ptr<JobStore> MakeStore() override {
    SqliteJobStoreOptions options;
    options.folder = folder_.path();
    auto store = SqliteJobStore::Open(options);
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }

  std::unique_ptr<v1::NodePoolService::Stub> pools() { return v1::NodePoolService::NewStub(channel_); }

  // One node of pool "spot", which costs 3.6 an hour.
  static v1::ReportNodePoolsRequest SpotReport(const std::string& node = "n1") {
    v1::ReportNodePoolsRequest report;
    v1::NodePool* pool = report.add_pools();
    pool->set_name("spot");
    pool->set_provider("aws");
    pool->set_price_per_hour(3.6);
    pool->set_preemptible(true);
    report.set_currency("EUR");
    if (node.empty()) return report;
    v1::VouchedNode* vouched = report.add_nodes();
    vouched->set_node_id(node);
    vouched->set_pool("spot");
    vouched->set_instance_id("i-" + node);
    vouched->set_address("10.0.0.1");
    vouched->set_price_per_hour(3.6);
    vouched->set_preemptible(true);
    return report;
  }
  grpc::Status Report(const v1::ReportNodePoolsRequest& report) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::ReportNodePoolsResponse response;
    return pools()->ReportNodePools(&context, report, &response);
  }
  v1::GetNodePoolsResponse GetPools(int events = 0) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::GetNodePoolsRequest request;
    request.set_events(events);
    v1::GetNodePoolsResponse response;
    EXPECT_TRUE(pools()->GetNodePools(&context, request, &response).ok());
    return response;
  }
  grpc::Status TryCosts(const v1::GetCostsRequest& request, v1::GetCostsResponse* response) {
    grpc::ClientContext context;
    SetDeadline(&context);
    return pools()->GetCosts(&context, request, response);
  }
  v1::GetCostsResponse Costs(const std::string& name_space = "*") {
    v1::GetCostsRequest request;
    request.set_namespace_(name_space);
    v1::GetCostsResponse response;
    EXPECT_TRUE(TryCosts(request, &response).ok());
    return response;
  }
  static double CostOf(const v1::GetCostsResponse& costs, const std::string& job) {
    double cost = 0;
    for (const v1::CostLine& line : costs.lines()) cost += line.job() == job ? line.cost() : 0;
    return cost;
  }
  v1::Node Node(const std::string& id) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::ListNodesResponse response;
    EXPECT_TRUE(nodes_->ListNodes(&context, {}, &response).ok());
    for (const v1::Node& node : response.nodes()) {
      if (node.node_id() == id) return node;
    }
    return {};
  }
  // A job that holds a quarter of the node from now on.
  v1::Job RunQuarter(FakeWorker* worker, const std::string& name, const std::string& node) {
    v1::Job job = NewJob(name);
    job.mutable_spec()->mutable_template_()->mutable_resources()->set_cpu_millis(1000);
    job = Submit(job);
    Allocate(job, {node});
    const v1::LaunchReplica launch = worker->NextLaunch();
    worker->Running(launch);
    return job;
  }
  // As the worker and the autoscaler go on.
  void Live(FakeWorker* worker, absl::Duration duration) {
    for (; duration > absl::ZeroDuration(); duration -= absl::Seconds(1)) {
      clock_.Advance(absl::Seconds(1));
      KeepAlive(worker);
      supervisor_->Step();
    }
  }
  void KeepAlive(FakeWorker* worker) {
    worker->Heartbeat();
    worker->AwaitHeard();
  }

  const TemporaryFolder folder_;
};

TEST_F(NodePoolsTest, ShowsPoolsAndEventsAsTheyWereReported) {
  EXPECT_FALSE(GetPools().has_report_time());
  v1::ReportNodePoolsRequest report = SpotReport();
  for (const int second : {1, 2, 3}) {
    v1::PoolEvent* event = report.add_events();
    event->set_pool("spot");
    event->set_reason("Grow");
    event->mutable_time()->set_seconds(second);
  }
  ASSERT_TRUE(Report(report).ok());
  const v1::GetNodePoolsResponse response = GetPools(2);
  ASSERT_EQ(response.pools_size(), 1);
  EXPECT_EQ(response.pools(0).provider(), "aws");
  EXPECT_EQ(response.currency(), "EUR");
  EXPECT_TRUE(response.has_report_time());
  ASSERT_EQ(response.events_size(), 2);
  EXPECT_EQ(response.events(0).time().seconds(), 2) << "the latest, the oldest of them first";
  EXPECT_EQ(GetPools().events_size(), 0);
  report.mutable_nodes(0)->set_address("nowhere");
  EXPECT_EQ(Report(report).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(NodePoolsTest, NodesHaveThePriceOfTheirPoolWhicheverComesFirst) {
  const auto early = AddWorker("n1");
  EXPECT_FALSE(Node("n1").status().has_price_per_hour());
  ASSERT_TRUE(Report(SpotReport()).ok());
  EXPECT_EQ(Node("n1").status().price_per_hour(), 3.6);
  EXPECT_TRUE(Node("n1").preemptible());
  EXPECT_TRUE(Snapshot().nodes(0).preemptible()) << "the allocator knows it, too";
  ASSERT_TRUE(Report(SpotReport("n2")).ok());
  EXPECT_FALSE(Node("n1").status().has_price_per_hour()) << "nobody says so any more";
  const auto late = AddWorker("n2");
  EXPECT_EQ(Node("n2").status().price_per_hour(), 3.6);
  EXPECT_TRUE(Node("n2").preemptible());
}

TEST_F(NodePoolsTest, VouchesForMachines) {
  ASSERT_TRUE(Report(SpotReport()).ok());
  const std::optional<Vouched> found = supervisor_->cluster()->pools()->Find("i-n1");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->node_id, "n1");
  EXPECT_EQ(found->address, "10.0.0.1");
  EXPECT_FALSE(supervisor_->cluster()->pools()->Find("i-n2").has_value());
  EXPECT_FALSE(supervisor_->cluster()->pools()->Find("").has_value());
}

TEST_F(NodePoolsTest, AJobPaysForWhatItHolds) {
  const auto worker = AddWorker("n1");
  ASSERT_TRUE(Report(SpotReport()).ok());
  supervisor_->Step();
  RunQuarter(worker.get(), "a", "n1");
  Live(worker.get(), absl::Seconds(100));
  // A thousandth a second, of which it holds a quarter; what it does within a second may be charged to others.
  EXPECT_NEAR(Get("a").status().cost(), 0.025, 0.0005);
  const v1::GetCostsResponse costs = Costs();
  EXPECT_EQ(costs.currency(), "EUR");
  EXPECT_NEAR(CostOf(costs, "a") + CostOf(costs, ""), 0.1, 0.0011);
  EXPECT_NEAR(CostOf(costs, "a"), 0.025, 0.0005);
  const v1::GetCostsResponse own = Costs("default");
  EXPECT_NEAR(CostOf(own, "a"), 0.025, 0.0005);
  EXPECT_EQ(CostOf(own, ""), 0) << "what nobody used is none of a namespace's";
  EXPECT_EQ(Costs("other").lines_size(), 0);
}

TEST_F(NodePoolsTest, CostsSurviveARestart) {
  auto worker = AddWorker("n1");
  ASSERT_TRUE(Report(SpotReport()).ok());
  supervisor_->Step();
  RunQuarter(worker.get(), "a", "n1");
  Live(worker.get(), absl::Seconds(100));
  worker->Disconnect();
  Stop();
  clock_.Advance(absl::Seconds(20));
  Start();
  EXPECT_EQ(GetPools().pools_size(), 0) << "that is told again";
  EXPECT_GT(Get("a").status().cost(), 0.015) << "but for half a minute it was stored";
  supervisor_->Step();
  EXPECT_NEAR(Get("a").status().cost(), 0.030, 0.001) << "the time in between is made up for";
  EXPECT_EQ(Costs().currency(), "EUR");
  EXPECT_NEAR(CostOf(Costs(), "a") + CostOf(Costs(), ""), 0.120, 0.0011);
}

TEST_F(NodePoolsTest, AsksForHoursThatMakeSense) {
  v1::GetCostsRequest request;
  request.mutable_start_time()->set_seconds(7200);
  request.mutable_end_time()->set_seconds(7200);
  v1::GetCostsResponse response;
  const grpc::Status status = TryCosts(request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("end_time"));
}

TEST_F(NodePoolsTest, MetricsTellOfPoolsAndNamespacesAndOfNoJobs) {
  const auto registry = std::make_shared<prometheus::Registry>();
  supervisor_->ExportMetrics(registry);
  const auto worker = AddWorker("n1");
  ASSERT_TRUE(Report(SpotReport()).ok());
  supervisor_->Step();
  RunQuarter(worker.get(), "secret-name", "n1");
  Live(worker.get(), absl::Seconds(20));
  const std::string text = prometheus::TextSerializer().Serialize(registry->Collect());
  EXPECT_THAT(text, HasSubstr("adaptdl_supervisor_cost_total{namespace=\"default\",pool=\"spot\"}"));
  EXPECT_THAT(text, HasSubstr("adaptdl_supervisor_cost_total{namespace=\"\",pool=\"spot\"}"));
  EXPECT_THAT(text, Not(HasSubstr("secret-name")));
}

}  // namespace
}  // namespace adaptdl::supervisor
