#include "simulator/spot_market.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "simulator/cluster.h"
#include "simulator/nodes.h"

namespace adaptdl::simulator {
namespace {

TEST(SpotMarket, TakesNothingAndRefusesNothingUnlessThatIsSaid) {
  SpotMarket market({}, 2, 1);
  EXPECT_EQ(market.NextReclaim(1), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(market.HasCapacity(0, 1e9));
}

TEST(SpotMarket, NodesLiveAsLongAsIsSaid) {
  SpotMarket market({.together = 0.25, .lifetime = 8000}, 1, 1);
  int reclaims = 0;
  int taken = 0;
  while (market.NextReclaim(0) < 1e7) {
    ++reclaims;
    for (int node = 0; node < 10; ++node) taken += market.Takes(0, node);
    market.PassReclaim(0);
  }
  EXPECT_NEAR(reclaims, 1e7 / 2000, 200);
  EXPECT_NEAR(taken, 10 * 1e7 / 8000, 500);
}

TEST(SpotMarket, HasNoCapacityForAWhileAfterAReclaim) {
  SpotMarket market({.together = 1, .lifetime = 10'000, .refusal = 600}, 1, 1);
  double refused = 0;
  const int rounds = 200;
  for (int i = 0; i < rounds; ++i) {
    const double reclaim = market.NextReclaim(0);
    market.PassReclaim(0);
    EXPECT_FALSE(market.HasCapacity(0, reclaim));
    double now = reclaim;
    while (!market.HasCapacity(0, now) && now < market.NextReclaim(0)) ++now;
    refused += now - reclaim;
  }
  EXPECT_NEAR(refused / rounds, 600, 120);
}

TEST(SpotMarket, IsScarceByItselfAsOftenAsIsSaid) {
  SpotMarket market({.refusal = 100, .scarcity = 1000}, 1, 3);
  int refused = 0;
  for (int now = 0; now < 1'000'000; now += 10) refused += !market.HasCapacity(0, now);
  EXPECT_NEAR(refused / 1e5, 0.1, 0.03);
}

TEST(SpotMarket, DoesNotDependOnWhoAsks) {
  SpotMarket asked({.together = 0.5, .lifetime = 1000, .refusal = 100, .scarcity = 500}, 2, 7);
  SpotMarket silent({.together = 0.5, .lifetime = 1000, .refusal = 100, .scarcity = 500}, 2, 7);
  EXPECT_NE(asked.NextReclaim(0), asked.NextReclaim(1));
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(asked.NextReclaim(0), silent.NextReclaim(0));
    const double now = asked.NextReclaim(0);
    (void)asked.HasCapacity(0, now - 0.5);
    asked.PassReclaim(0);
    silent.PassReclaim(0);
    EXPECT_EQ(asked.HasCapacity(0, now + 50), silent.HasCapacity(0, now + 50));
  }
}

TEST(SpotMarket, SpotNodesOfATypeGoTogetherAfterANotice) {
  const Cluster cluster = *Cluster::Parse("a:20x4,b:20x4");
  Nodes nodes(cluster,
              {.spot_nodes = {10, 10}, .spot_lifetime = 1e5, .spot_together = 0.5, .spot_return = 300}, 1);
  const double now = nodes.NextEvent();
  const std::vector<Nodes::Event> events = nodes.Advance(now);
  EXPECT_GT(events.size(), 1u);
  EXPECT_LT(events.size(), 10u);
  const bool first_type = events.front().node < 20;
  for (const Nodes::Event& event : events) {
    EXPECT_EQ(event.change, Nodes::Change::kNotice);
    EXPECT_TRUE(nodes.status()[event.node].spot && nodes.status()[event.node].draining);
    EXPECT_EQ(event.node < 20, first_type);
  }
  EXPECT_EQ(nodes.NextEvent(), now + 30);
  EXPECT_EQ(nodes.Advance(now + 30).size(), events.size());
}

}  // namespace
}  // namespace adaptdl::simulator
