#include "services/autoscaler/file_pools.h"

#include <memory>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/file.h"
#include "services/autoscaler/providers/fake_node_pool_provider.h"

namespace adaptdl::autoscaler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kTwo[] = R"(
target: {mode: cost, goodputPerDollar: 0.5}
floorOn: on-demand
cooldown: 90s
pools:
- {name: a, provider: process, pricePerHour: 1, maxNodes: 4, process: {workerCpus: 2}, labels: {tier: lasting}}
- {name: b, provider: process, pricePerHour: 0.3, spot: true, maxNodes: 8, process: {workerCpus: 2}}
)";
constexpr char kOne[] = R"(
pools:
- {name: b, provider: process, maxNodes: 2, process: {workerCpus: 2}}
)";

class FilePoolsTest : public ::testing::Test {
 protected:
  void Write(const std::string& content) { ASSERT_TRUE(WriteFileAtomically(path_, content).ok()); }

  absl::StatusOr<std::unique_ptr<FilePools>> Open() {
    return FilePools::Open(
        path_,
        [this](const poolfile::PoolFile&,
               const poolfile::Pool& pool) -> absl::StatusOr<std::shared_ptr<NodePoolProvider>> {
          if (!failure_.ok() && pool.name == "b") return failure_;
          EXPECT_FALSE(live_.contains(pool.name)) << "two providers of one pool";
          live_.insert(pool.name);
          return std::shared_ptr<NodePoolProvider>(new FakeNodePoolProvider(pool.name),
                                                   [this, name = pool.name](NodePoolProvider* provider) {
                                                     live_.erase(name);
                                                     delete provider;
                                                   });
        });
  }

  static std::vector<std::string> NamesOf(const PoolSet& set) {
    std::vector<std::string> names;
    for (const ManagedPool& pool : set.pools) names.push_back(pool.name);
    return names;
  }

  const std::string path_ = ::testing::TempDir() + "/pools-" +
                            ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".yaml";
  std::set<std::string> live_;
  absl::Status failure_;
};

TEST_F(FilePoolsTest, ReadsPoolsAndWhatTheyAimAt) {
  Write(kTwo);
  auto pools = Open();
  ASSERT_TRUE(pools.ok()) << pools.status();
  const PoolSet& set = (*pools)->Get();
  EXPECT_EQ(set.target.mode, nodepools::TargetMode::kCost);
  EXPECT_EQ(set.target.goodput_per_price, 0.5);
  EXPECT_TRUE(set.target.floor_on_lasting);
  EXPECT_EQ(set.target.cooldown, absl::Seconds(90));
  ASSERT_THAT(NamesOf(set), ElementsAre("a", "b"));
  EXPECT_EQ(set.pools[0].like->capacity().cpu_millis(), 2000);
  EXPECT_EQ(set.pools[0].like->labels().at("tier"), "lasting");
  EXPECT_EQ(set.pools[1].price_per_hour, 0.3);
  EXPECT_TRUE(set.pools[1].preemptible);
  EXPECT_TRUE(set.refusal.ok());
}

TEST_F(FilePoolsTest, AnEditIsInForceWithTheNextRoundAndLeavingPoolsDrain) {
  Write(kTwo);
  auto pools = Open();
  ASSERT_TRUE(pools.ok()) << pools.status();
  Write(kOne);
  const PoolSet* set = &(*pools)->Get();
  ASSERT_THAT(NamesOf(*set), ElementsAre("b", "a"));
  EXPECT_EQ(set->pools[0].max_nodes, 2);
  EXPECT_EQ(set->pools[1].max_nodes, 0);
  EXPECT_EQ(set->target.mode, nodepools::TargetMode::kBand);
  (*pools)->Emptied("a");
  EXPECT_THAT(NamesOf((*pools)->Get()), ElementsAre("b"));
  EXPECT_THAT(live_, ElementsAre("b"));
}

TEST_F(FilePoolsTest, APoolThatCameBackIsWhatTheFileSays) {
  Write(kTwo);
  auto pools = Open();
  ASSERT_TRUE(pools.ok()) << pools.status();
  Write(kOne);
  (*pools)->Get();
  Write(kTwo);
  const PoolSet& set = (*pools)->Get();
  ASSERT_THAT(NamesOf(set), ElementsAre("a", "b"));
  EXPECT_EQ(set.pools[0].max_nodes, 4);
}

TEST_F(FilePoolsTest, ABadEditKeepsWhatThereWasAndSaysSo) {
  Write(kTwo);
  auto pools = Open();
  ASSERT_TRUE(pools.ok()) << pools.status();
  Write("pools: [{name: a, provider: process, maxNodes: many}]");
  const PoolSet* set = &(*pools)->Get();
  EXPECT_THAT(NamesOf(*set), ElementsAre("a", "b"));
  EXPECT_THAT(set->refusal.message(), HasSubstr("maxNodes"));
  Write(kOne);
  EXPECT_TRUE((*pools)->Get().refusal.ok());
}

TEST_F(FilePoolsTest, AProviderThatCantBeMadeIsTriedAgain) {
  Write(kTwo);
  auto pools = Open();
  ASSERT_TRUE(pools.ok()) << pools.status();
  Write(kOne);
  failure_ = absl::NotFoundError("there is no adaptdl-worker");
  // What was before can't be made either as long as that is so.
  EXPECT_THAT((*pools)->Get().refusal.message(), HasSubstr("pool b: there is no adaptdl-worker"));
  failure_ = absl::OkStatus();
  EXPECT_THAT(NamesOf((*pools)->Get()), ElementsAre("b", "a"));
  EXPECT_TRUE((*pools)->Get().refusal.ok());
}

TEST_F(FilePoolsTest, PricesAreGivenToAllOrToNone) {
  Write(
      "pools:\n- {name: a, provider: process, maxNodes: 1, pricePerHour: 1}\n- {name: b, provider: process, "
      "maxNodes: 1}");
  EXPECT_THAT(Open().status().message(), HasSubstr("1 of 2 have a pricePerHour"));
}

}  // namespace
}  // namespace adaptdl::autoscaler
