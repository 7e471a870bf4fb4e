// Node pools and costs on the command line.

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/cli/command_fixture.h"

namespace adaptdl::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class PoolsTest : public CommandTest {
 protected:
  static v1::GetNodePoolsResponse TwoPools() {
    v1::GetNodePoolsResponse pools;
    pools.set_currency("USD");
    pools.mutable_report_time()->set_seconds(1'700'000'000);
    v1::NodePool* spot = pools.add_pools();
    spot->set_name("spot");
    spot->set_provider("aws");
    spot->set_instance_type("g5.2xlarge");
    spot->set_preemptible(true);
    spot->set_price_per_hour(0.45);
    spot->set_current_nodes(2);
    spot->set_target_nodes(4);
    spot->set_max_nodes(16);
    spot->set_reason("utility is high");
    spot->mutable_capacity()->set_cpu_millis(7500);
    spot->mutable_capacity()->set_memory_bytes(int64_t{30} << 30);
    spot->mutable_capacity()->set_gpus(1);
    spot->set_gpu_type("NVIDIA A10G");
    v1::PoolCondition* condition = spot->add_conditions();
    condition->set_type("InsufficientCapacity");
    condition->set_message("no g5.2xlarge left");
    condition->mutable_start_time()->set_seconds(1'700'000'000);
    condition->mutable_next_attempt_time()->set_seconds(1'700'000'300);
    v1::NodePool* local = pools.add_pools();
    local->set_name("local");
    local->set_provider("process");
    local->set_min_nodes(1);
    local->set_max_nodes(1);
    return pools;
  }
  static v1::GetCostsResponse SomeCosts() {
    v1::GetCostsResponse costs;
    costs.set_currency("USD");
    costs.mutable_start_time()->set_seconds(1'699'999'200);
    const auto add = [&](const char* name_space, const char* job, const char* pool, double hours,
                         double cost) {
      v1::CostLine* line = costs.add_lines();
      line->set_namespace_(name_space);
      line->set_job(job);
      line->set_pool(pool);
      line->set_node_hours(hours);
      line->set_cost(cost);
    };
    add("", "", "spot", 1, 0.5);
    add("", "", "steady", 0.5, 1);
    add("speech", "a", "spot", 2, 1);
    add("vision", "a", "spot", 4, 2);
    add("vision", "a", "steady", 1, 3);
    return costs;
  }
  v1::Job Waiting(const std::string& name, int gpus) {
    v1::Job job = PendingJob(name);
    job.mutable_spec()->mutable_template_()->mutable_resources()->set_gpus(gpus);
    job.mutable_status()->set_allocation_reason("no node has the room");
    supervisor_.AddJob(job);
    return job;
  }
};

TEST_F(PoolsTest, ListsPoolsWithWhatIsWrong) {
  EXPECT_EQ(Run({"pools"}).err, "no pools: no autoscaler has reported yet\n");
  supervisor_.SetPools(TwoPools());
  EXPECT_EQ(
      Run({"pools"}).out,
      "POOL    PROVIDER   TYPE         SPOT   PRICE/H      NODES   TARGET   BOUNDS   STATE                  "
      "REASON\n"
      "spot    aws        g5.2xlarge   yes    0.4500 USD   2       4        0..16    InsufficientCapacity   "
      "utility is high\n"
      "local   process    -            no     -            0       0        1..1     ok                     "
      "-\n"
      "\n"
      "spot: InsufficientCapacity: no g5.2xlarge left (since Nov-14 22:13:20, next attempt Nov-14 22:18:20 "
      "UTC)\n");
  const auto json = nlohmann::json::parse(Run({"pools", "-o", "json"}).out);
  EXPECT_EQ(json["pools"][0]["pricePerHour"], 0.45);
}

TEST_F(PoolsTest, ListsWhatWasDecided) {
  v1::GetNodePoolsResponse pools = TwoPools();
  supervisor_.SetPools(pools);
  EXPECT_EQ(Run({"pools", "--events"}).err, "no events of pools\n");
  v1::PoolEvent* event = pools.add_events();
  event->mutable_time()->set_seconds(1'700'000'000);
  event->set_pool("spot");
  event->set_reason("Grow");
  event->set_message("2 nodes\nmore");
  event->add_node_ids("i-1");
  event->add_node_ids("i-2");
  supervisor_.SetPools(pools);
  EXPECT_EQ(Run({"pools", "--events"}).out,
            "TIME(UTC)         POOL   REASON   NODES     MESSAGE\n"
            "Nov-14 22:13:20   spot   Grow     i-1,i-2   2 nodes more\n");
}

TEST_F(PoolsTest, SumsUpCosts) {
  EXPECT_EQ(Run({"cost"}).err, "no costs are known\n");
  supervisor_.SetCosts(SomeCosts());
  EXPECT_EQ(Run({"cost", "-A"}).out,
            "JOB        NODE HOURS   COST (USD)\n"
            "vision/a   5.00         5.00\n"
            "speech/a   2.00         1.00\n"
            "(idle)     1.50         1.50\n"
            "total      8.50         7.50\n");
  EXPECT_EQ(supervisor_.last_costs_request().namespace_(), "*");
  EXPECT_FALSE(supervisor_.last_costs_request().has_start_time());
  EXPECT_EQ(Run({"cost", "--by", "namespace"}).out,
            "NAMESPACE   NODE HOURS   COST (USD)\n"
            "vision      5.00         5.00\n"
            "speech      2.00         1.00\n"
            "(idle)      1.50         1.50\n"
            "total       8.50         7.50\n");
  EXPECT_EQ(supervisor_.last_costs_request().namespace_(), "default");
  EXPECT_EQ(Run({"cost", "--by", "pool", "--namespace", "vision", "--since", "24h"}).out,
            "POOL            NODE HOURS   COST (USD)\n"
            "spot            6.00         3.00\n"
            "steady          1.00         3.00\n"
            "steady (idle)   0.50         1.00\n"
            "spot (idle)     1.00         0.5000\n"
            "total           8.50         7.50\n");
  EXPECT_EQ(supervisor_.last_costs_request().namespace_(), "vision");
  EXPECT_TRUE(supervisor_.last_costs_request().has_start_time());
  EXPECT_EQ(Run({"cost", "--by", "user"}).code, 2);
}

TEST_F(PoolsTest, WritesCostsForPrograms) {
  v1::GetCostsResponse costs = SomeCosts();
  costs.mutable_lines(3)->set_job("a,\"b\"");
  supervisor_.SetCosts(costs);
  EXPECT_EQ(Run({"cost", "-A", "-o", "csv"}).out,
            "job,idle_pool,node_hours,cost,currency\r\n"
            "vision/a,,1.000000,3.000000000,USD\r\n"
            "\"vision/a,\"\"b\"\"\",,4.000000,2.000000000,USD\r\n"
            "speech/a,,2.000000,1.000000000,USD\r\n"
            ",steady,0.500000,1.000000000,USD\r\n"
            ",spot,1.000000,0.500000000,USD\r\n");
  const auto json = nlohmann::json::parse(Run({"cost", "-A", "--by", "namespace", "-o", "json"}).out);
  EXPECT_EQ(json["rows"][0]["namespace"], "vision");
  EXPECT_EQ(json["rows"][0]["cost"], 5.0);
  EXPECT_EQ(json["idle"][0]["pool"], "steady");
  EXPECT_EQ(json["total"]["nodeHours"], 8.5);
  EXPECT_EQ(json["startTime"], "2023-11-14T22:00:00Z");
}

TEST_F(PoolsTest, AJobThatWaitsIsToldOfPoolsThatGetNoNodes) {
  supervisor_.SetPools(TwoPools());
  Waiting("a", 1);
  Waiting("large", 8);
  const std::string told = "pool spot gets no nodes: no g5.2xlarge left; next attempt Nov-14 22:18:20 UTC\n";
  EXPECT_THAT(Run({"explain", "a"}).out, HasSubstr("Pools:      " + told));
  EXPECT_THAT(Run({"describe", "a"}).out, HasSubstr(told));
  EXPECT_THAT(Run({"explain", "large"}).out, Not(HasSubstr("spot"))) << "it would not fit there";
  const auto json = nlohmann::json::parse(Run({"explain", "a", "-o", "json"}).out);
  EXPECT_EQ(json["shortPools"][0]["pool"], "spot");
  EXPECT_EQ(json["shortPools"][0]["condition"]["type"], "InsufficientCapacity");
}

TEST_F(PoolsTest, DescribesWhatAJobHasCost) {
  supervisor_.SetPools(TwoPools());
  v1::Job job = EndedJob("a", v1::JOB_PHASE_SUCCEEDED);
  supervisor_.AddJob(job);
  EXPECT_THAT(Run({"describe", "a"}).out, Not(HasSubstr("Cost:")));
  job.set_name("b");
  job.mutable_status()->set_cost(12.349);
  supervisor_.AddJob(job);
  EXPECT_THAT(Run({"describe", "b"}).out, HasSubstr("Cost:              12.35 USD\n"));
}

TEST_F(PoolsTest, NodesShowWhatTheirPoolSays) {
  v1::Node node;
  node.set_node_id("i-1");
  node.set_preemptible(true);
  (*node.mutable_labels())["adaptdl.petuum.com/pool"] = "spot";
  node.mutable_status()->set_phase(v1::NODE_PHASE_READY);
  node.mutable_status()->set_price_per_hour(0.45);
  supervisor_.AddNode(node);
  EXPECT_EQ(Run({"nodes"}).out,
            "NAME   STATUS   REPLICAS   CPU   MEMORY   GPUS   AGE   POOL   SPOT   PRICE/H   LABELS, TAINTS\n"
            "i-1    Ready    0          0/0   0/0      0/0    -     spot   yes    0.4500    "
            "adaptdl.petuum.com/pool=spot\n");
}

}  // namespace
}  // namespace adaptdl::cli
