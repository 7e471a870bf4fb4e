#include "services/supervisor/pools/pool_board.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/supervisor/pools/report_checks.h"

namespace adaptdl::supervisor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const absl::Time kNow = absl::FromUnixSeconds(1'000'000'000);

v1::ReportNodePoolsRequest ReportOf(const std::string& pool, const std::vector<std::string>& nodes) {
  v1::ReportNodePoolsRequest report;
  report.add_pools()->set_name(pool);
  for (const std::string& id : nodes) {
    v1::VouchedNode* node = report.add_nodes();
    node->set_node_id(id);
    node->set_pool(pool);
    node->set_instance_id("i-" + id);
  }
  return report;
}

std::string PoolNames(const PoolBoard& board) {
  std::string names;
  for (const v1::NodePool* pool : board.Pools()) absl::StrAppend(&names, pool->name(), " ");
  return names;
}

class PoolBoardTest : public testing::Test {
 protected:
  absl::Status Take(const v1::ReportNodePoolsRequest& report, const std::string& caller = "x",
                    absl::Duration later = absl::ZeroDuration()) {
    changed_.clear();
    return board_.Take(report, caller, kNow + later, &changed_);
  }

  PoolBoard board_;
  PoolBoard::Changed changed_;
};

TEST_F(PoolBoardTest, AReportReplacesTheNodesOfItsPools) {
  EXPECT_EQ(board_.report_time(), absl::InfinitePast());
  ASSERT_TRUE(Take(ReportOf("a", {"n1", "n2"})).ok());
  ASSERT_TRUE(Take(ReportOf("a", {"n2", "n3"})).ok());
  EXPECT_THAT(changed_, ElementsAre("a"));
  EXPECT_EQ(board_.FindNode("n1"), nullptr);
  EXPECT_EQ(board_.FindInstance("i-n1"), nullptr);
  ASSERT_NE(board_.FindInstance("i-n3"), nullptr);
  EXPECT_EQ(board_.FindInstance("i-n3")->node_id(), "n3");
  EXPECT_EQ(board_.FindInstance(""), nullptr);
  EXPECT_THAT(board_.NodesOf("a"), SizeIs(2));
  EXPECT_EQ(board_.report_time(), kNow);
}

TEST_F(PoolBoardTest, SeveralAutoscalersKeepTheirOwn) {
  ASSERT_TRUE(Take(ReportOf("b", {"n1"}), "x").ok());
  ASSERT_TRUE(Take(ReportOf("a", {"n2"}), "y").ok());
  EXPECT_EQ(PoolNames(board_), "a b ");
  const absl::Status refused = Take(ReportOf("b", {}), "y", absl::Seconds(10));
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("another autoscaler, \"x\", reports it"));
  EXPECT_NE(board_.FindNode("n1"), nullptr) << "nothing has changed";
  EXPECT_TRUE(Take(ReportOf("b", {}), "y", PoolBoard::kForgetAfter).ok()) << "the other one is silent";
}

TEST_F(PoolBoardTest, APoolThatItsAutoscalerNamesNoMoreIsForgotten) {
  ASSERT_TRUE(Take(ReportOf("a", {"n1"})).ok());
  ASSERT_TRUE(Take(ReportOf("b", {}), "x", absl::Minutes(1)).ok());
  EXPECT_EQ(PoolNames(board_), "a b ") << "a second one may have the same certificate";
  ASSERT_TRUE(Take(ReportOf("b", {}), "x", absl::Minutes(2)).ok());
  EXPECT_THAT(changed_, ElementsAre("a", "b"));
  EXPECT_EQ(PoolNames(board_), "b ");
  EXPECT_EQ(board_.FindNode("n1"), nullptr);
}

TEST_F(PoolBoardTest, ASilentAutoscalerTakesNothingAway) {
  ASSERT_TRUE(Take(ReportOf("a", {"n1"}), "x").ok());
  ASSERT_TRUE(Take(ReportOf("b", {}), "y", absl::Hours(5)).ok());
  EXPECT_NE(board_.FindNode("n1"), nullptr);
}

TEST_F(PoolBoardTest, EventsAreKeptOnceAndTheOldestGo) {
  v1::ReportNodePoolsRequest report = ReportOf("a", {});
  v1::PoolEvent* event = report.add_events();
  event->set_pool("a");
  event->set_reason("Grow");
  event->mutable_time()->set_seconds(5);
  ASSERT_TRUE(Take(report).ok());
  ASSERT_TRUE(Take(report).ok());
  EXPECT_THAT(board_.events(), SizeIs(1));
  report.clear_events();
  for (int i = 0; i < 1000; ++i) {
    v1::PoolEvent* next = report.add_events();
    next->set_pool("a");
    next->set_reason("Drain");
    next->mutable_time()->set_seconds(10 + i);
  }
  ASSERT_TRUE(Take(report).ok());
  EXPECT_THAT(board_.events(), SizeIs(PoolBoard::kMaxEvents));
  EXPECT_EQ(board_.events().front().time().seconds(), 10);
}

TEST_F(PoolBoardTest, AllPricesAreInOneCurrency) {
  v1::ReportNodePoolsRequest report = ReportOf("a", {});
  report.set_currency("EUR");
  ASSERT_TRUE(Take(report, "x").ok());
  EXPECT_EQ(board_.currency(), "EUR");
  const absl::Status refused = Take(ReportOf("b", {}), "y");
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  report.set_currency("USD");
  EXPECT_TRUE(Take(report, "x").ok()) << "it changes its own";
}

TEST_F(PoolBoardTest, AllReportsTogetherAreBounded) {
  for (size_t i = 0; i < PoolBoard::kMaxPools; ++i)
    ASSERT_TRUE(Take(ReportOf(absl::StrCat("p", i), {})).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(Take(ReportOf("more", {}))));
}

TEST(ReportChecksTest, NamesWhatIsWrong) {
  const auto message = [](const v1::ReportNodePoolsRequest& report) {
    return std::string(CheckReport(report).message());
  };
  EXPECT_TRUE(CheckReport(ReportOf("a", {"n1"})).ok());
  EXPECT_THAT(message(ReportOf("A b", {})), HasSubstr("pools.name: \"A b\": give 1 to 63"));
  EXPECT_THAT(message(ReportOf("a", {"n", "n"})), HasSubstr("nodes.node_id: \"n\": is there twice"));
  v1::ReportNodePoolsRequest report = ReportOf("a", {"n"});
  report.mutable_nodes(0)->set_pool("b");
  EXPECT_THAT(message(report), HasSubstr("nodes.pool: \"b\": is none of the report's pools"));
  report = ReportOf("a", {"n"});
  report.mutable_nodes(0)->set_address("example.com");
  EXPECT_THAT(message(report), HasSubstr("nodes.address: \"example.com\": give an IP address"));
  report.mutable_nodes(0)->set_address("fe80::1");
  EXPECT_TRUE(CheckReport(report).ok());
  report.mutable_nodes(0)->set_price_per_hour(-1);
  EXPECT_THAT(message(report), HasSubstr("nodes.price_per_hour: -1"));
  report = ReportOf("a", {});
  report.set_currency("dollars");
  EXPECT_THAT(message(report), HasSubstr("currency: \"dollars\""));
  report = ReportOf("a", {});
  *report.add_pools() = report.pools(0);
  EXPECT_THAT(message(report), HasSubstr("pools.name: \"a\": is there twice"));
  report = ReportOf("a", {});
  report.add_events()->set_pool("a");
  EXPECT_THAT(message(report), HasSubstr("events.reason"));
}

}  // namespace
}  // namespace adaptdl::supervisor
