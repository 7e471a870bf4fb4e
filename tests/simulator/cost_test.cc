// What node pools that come and go cost on a published workload: the small form of scripts/reproduce-cost.sh.

#include <string>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "simulator/policies/all_policies.h"
#include "simulator/replay.h"
#include "tests/simulator/peers.h"

namespace adaptdl::simulator {
namespace {

ReplayOptions OnAllNodes() {
  ReplayOptions options;
  options.workload = PolluxFolder() + "/workloads-0.5/workload-1.csv";
  options.traces = {PolluxFolder()};
  options.policy = "goodput";
  options.scheduler.policies = AllPolicies();
  options.simulation.round_seconds = 0;
  options.in_place_times = std::string(ADAPTDL_SOURCE_DIR) + "/docs/results/in-place-pauses.json";
  options.price = "1";
  options.format = OutputFormat::kJson;
  return options;
}

ReplayOptions OnPools(double goodput_per_price) {
  ReplayOptions options = OnAllNodes();
  options.cluster = "2x4";
  options.autoscale = "0..16";
  options.simulation.nodes.target.mode = nodepools::TargetMode::kCost;
  options.simulation.nodes.target.goodput_per_price = goodput_per_price;
  return options;
}

ReplayOptions OnMarket(double goodput_per_price, int spot_nodes) {
  ReplayOptions options = OnPools(goodput_per_price);
  options.spot_nodes = std::to_string(spot_nodes);
  options.spot_price = "0.3";
  options.simulation.nodes.spot_lifetime = 8 * 3600;
  options.simulation.nodes.spot_together = 0.5;
  options.simulation.nodes.spot_refusal = 300;
  options.simulation.nodes.spot_scarcity = 8 * 3600;
  return options;
}

class CostTest : public testing::Test {
 protected:
  static nlohmann::json Run(const ReplayOptions& options) {
    const absl::StatusOr<std::string> text = Replay(options);
    EXPECT_TRUE(text.ok()) << text.status();
    return text.ok() ? nlohmann::json::parse(*text) : nlohmann::json();
  }
  static double Number(const nlohmann::json& json, const char* field) { return json[field].get<double>(); }
};

TEST_F(CostTest, PoolsThatComeAndGoCostLessAndHardlyHoldJobsUp) {
  SKIP_WITHOUT_PEERS();
  const nlohmann::json fixed = Run(OnAllNodes());
  const nlohmann::json on_demand = Run(OnPools(0.5));
  EXPECT_GT(Number(fixed, "node_hours") / Number(on_demand, "node_hours"), 1.3);
  EXPECT_LT(Number(on_demand, "avg_jct_s") / Number(fixed, "avg_jct_s"), 1.2);
  const nlohmann::json spot = Run(OnMarket(1, 16));
  EXPECT_GT(Number(fixed, "cost") / Number(spot, "cost"), 4);
  EXPECT_LT(Number(spot, "avg_jct_s") / Number(fixed, "avg_jct_s"), 1.2);
  EXPECT_GT(spot["node_evictions"], 0);
  ReplayOptions with_floor = OnMarket(2, 14);
  with_floor.simulation.nodes.target.floor_on_lasting = true;
  const nlohmann::json mixed = Run(with_floor);
  EXPECT_GT(Number(fixed, "cost") / Number(mixed, "cost"), 2.5);
  EXPECT_LT(Number(mixed, "avg_jct_s") / Number(fixed, "avg_jct_s"), 1.3);
}

}  // namespace
}  // namespace adaptdl::simulator
