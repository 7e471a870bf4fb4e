#include "services/supervisor/jobs/separator.h"

#include <string>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tests/services/supervisor/managers_fixture.h"

namespace adaptdl::supervisor {
namespace {

class SeparatorTest : public ManagersTest {
 protected:
  SeparatorTest() {
    options_.quarantine.first = absl::Minutes(5);
    options_.quarantine.longest = absl::Minutes(8);
    // Nodes say nothing in these tests, and stay.
    options_.heartbeat_period = absl::Hours(10);
  }
  void SetUp() override {
    ManagersTest::SetUp();
    separator_ = std::make_unique<Separator>(cluster_->core(), options_.quarantine);
    for (const char* id : {"a", "b", "c"}) ASSERT_TRUE(AddNode(id).ok());
  }
  void KeepApart(const std::string& one, const std::string& other) {
    const auto change = [&](Transaction* transaction) {
      separator_->KeepApart(transaction, {one, other});
      return absl::OkStatus();
    };
    ASSERT_TRUE(cluster_->core()->Update(change).ok());
  }
  void Pass(absl::Duration duration) {
    clock_.Advance(duration);
    separator_->Step();
  }
  // Nodes that this one is told to be kept apart from.
  std::string Unreachable(const std::string& id) {
    std::string ids;
    cluster_->core()->Read([&](const Tables& tables) {
      for (const auto& other : tables.nodes.at(id)->record.node.status().unreachable_nodes()) ids += other;
    });
    return ids;
  }

  std::unique_ptr<Separator> separator_;
};

TEST_F(SeparatorTest, BothNodesAreToldUntilTheTimeIsOver) {
  KeepApart("b", "a");
  EXPECT_EQ(Unreachable("a"), "b");
  EXPECT_EQ(Unreachable("b"), "a");
  EXPECT_EQ(Unreachable("c"), "");
  Pass(absl::Minutes(5) - absl::Seconds(1));
  EXPECT_EQ(Unreachable("a"), "b");
  Pass(absl::Seconds(1));
  EXPECT_EQ(Unreachable("a"), "");
  EXPECT_EQ(Unreachable("b"), "");
}

TEST_F(SeparatorTest, TheNextTimeIsLongerButBounded) {
  KeepApart("a", "b");
  Pass(absl::Minutes(5));
  KeepApart("a", "b");
  Pass(absl::Minutes(8) - absl::Seconds(1));
  EXPECT_EQ(Unreachable("a"), "b");
  Pass(absl::Seconds(1));
  EXPECT_EQ(Unreachable("a"), "");
}

TEST_F(SeparatorTest, WhatIsLongAgoIsForgotten) {
  KeepApart("a", "b");
  Pass(absl::Minutes(5));
  Pass(absl::Minutes(5));
  cluster_->core()->Read([](const Tables& tables) { EXPECT_TRUE(tables.separations.empty()); });
}

TEST_F(SeparatorTest, MostNodesStayTogetherWhateverReplicasSay) {
  for (int i = 0; i < 30; ++i) {
    ASSERT_TRUE(AddNode(absl::StrCat("n", i)).ok());
    KeepApart("a", absl::StrCat("n", i));
  }
  cluster_->core()->Read([](const Tables& tables) { EXPECT_EQ(tables.separations.size(), 8u); });
}

TEST_F(SeparatorTest, WhatCannotBeStoredIsTriedAgain) {
  KeepApart("a", "b");
  store_.FailCommits(absl::UnavailableError("the disk is gone"));
  Pass(absl::Minutes(5));
  EXPECT_EQ(Unreachable("a"), "b");
  store_.FailCommits(absl::OkStatus());
  separator_->Step();
  EXPECT_EQ(Unreachable("a"), "");
}

}  // namespace
}  // namespace adaptdl::supervisor
