#include "services/supervisor/kubernetes/pods/node_pods.h"

#include <memory>
#include <string>

#include "gtest/gtest.h"

namespace adaptdl::supervisor {
namespace {

const absl::Time kStart = absl::FromUnixSeconds(1'000'000);

PodValue MakePod(const std::string& name, Hindrance hindrance = Hindrance::kNone,
                 const std::string& node = "n") {
  Pod pod;
  pod.key = {"default", name};
  pod.uid = name + "-uid";
  pod.node = node;
  pod.hindrance = hindrance;
  pod.report.mutable_replica()->set_replica_id(name);
  pod.report.mutable_replica()->set_state(v1::REPLICA_STATE_LAUNCHING);
  return std::make_shared<const Pod>(pod);
}

v1::ReplicaState StateOf(const NodeNews& news, const std::string& name) {
  const auto found = news.reports.find({"default", name});
  return found == news.reports.end() ? v1::REPLICA_STATE_UNSPECIFIED : found->second.replica().state();
}

class NodePodsTest : public ::testing::Test {
 protected:
  NodePods nodes_{NodePodsOptions()};
};

TEST_F(NodePodsTest, WhatHasChangedIsTakenOnce) {
  const PodValue pod = MakePod("a");
  EXPECT_EQ(nodes_.Change(nullptr, pod, kStart), std::set<std::string>{"n"});
  const NodeNews news = nodes_.Take("n", kStart);
  EXPECT_FALSE(news.whole);
  EXPECT_EQ(news.reports.size(), 1);
  EXPECT_TRUE(nodes_.Take("n", kStart).reports.empty());
  nodes_.Change(pod, nullptr, kStart);
  EXPECT_EQ(nodes_.Take("n", kStart).gone.size(), 1);
  EXPECT_TRUE(nodes_.TellAll(kStart).empty());  // nothing is left of the node
}

TEST_F(NodePodsTest, WhatWasGivenBackIsTakenAgain) {
  const PodValue a = MakePod("a");
  const PodValue b = MakePod("b");
  nodes_.Change(nullptr, a, kStart);
  nodes_.Change(nullptr, b, kStart);
  nodes_.Change(b, nullptr, kStart);
  nodes_.Follow("n", kStart);
  NodeNews news = nodes_.Take("n", kStart);
  EXPECT_TRUE(news.whole);
  nodes_.GiveBack("n", std::move(news));
  news = nodes_.Take("n", kStart);
  EXPECT_TRUE(news.whole);
  EXPECT_EQ(news.gone.size(), 1);
  EXPECT_EQ(news.reports.size(), 1);
}

TEST_F(NodePodsTest, AFollowedNodeIsWholeEachPeriod) {
  nodes_.Follow("n", kStart);
  EXPECT_TRUE(nodes_.Take("n", kStart).whole);
  EXPECT_FALSE(nodes_.Take("n", kStart + absl::Seconds(59)).whole);
  EXPECT_EQ(nodes_.NextTime("n"), kStart + absl::Minutes(1));
  EXPECT_TRUE(nodes_.Take("n", kStart + absl::Seconds(60)).whole);
  nodes_.Forget("n");
  EXPECT_EQ(nodes_.NextTime("n"), absl::InfiniteFuture());
}

TEST_F(NodePodsTest, AHinderedPodIsGivenUpAfterItsDeadline) {
  const PodValue first = MakePod("a", Hindrance::kUnschedulable);
  nodes_.Change(nullptr, first, kStart);
  EXPECT_EQ(StateOf(nodes_.Take("n", kStart), "a"), v1::REPLICA_STATE_LAUNCHING);
  EXPECT_EQ(nodes_.NextTime("n"), kStart + absl::Seconds(30));
  // That it is said again does not make it newer.
  nodes_.Change(first, MakePod("a", Hindrance::kUnschedulable), kStart + absl::Seconds(20));
  EXPECT_EQ(StateOf(nodes_.Take("n", kStart + absl::Seconds(29)), "a"), v1::REPLICA_STATE_LAUNCHING);
  EXPECT_EQ(StateOf(nodes_.Take("n", kStart + absl::Seconds(30)), "a"), v1::REPLICA_STATE_LOST);
  EXPECT_EQ(nodes_.NextTime("n"), absl::InfiniteFuture());
  // It is repeated to whoever asks for all.
  nodes_.Follow("n", kStart + absl::Seconds(31));
  EXPECT_EQ(StateOf(nodes_.Take("n", kStart + absl::Seconds(31)), "a"), v1::REPLICA_STATE_LOST);
}

TEST_F(NodePodsTest, AnotherHindranceHasATimeOfItsOwn) {
  const PodValue first = MakePod("a", Hindrance::kUnschedulable);
  nodes_.Change(nullptr, first, kStart);
  nodes_.Change(first, MakePod("a", Hindrance::kImage), kStart + absl::Seconds(20));
  EXPECT_EQ(StateOf(nodes_.Take("n", kStart + absl::Seconds(60)), "a"), v1::REPLICA_STATE_LAUNCHING);
  EXPECT_EQ(nodes_.NextTime("n"), kStart + absl::Seconds(140));
}

TEST_F(NodePodsTest, APodThatIsOverItsHindranceIsNotGivenUp) {
  const PodValue first = MakePod("a", Hindrance::kImage);
  nodes_.Change(nullptr, first, kStart);
  nodes_.Change(first, MakePod("a"), kStart + absl::Seconds(100));
  EXPECT_EQ(StateOf(nodes_.Take("n", kStart + absl::Hours(1)), "a"), v1::REPLICA_STATE_LAUNCHING);
}

TEST_F(NodePodsTest, AnExpectedPodIsAmongAllUntilItIsHeardOf) {
  nodes_.Follow("n", kStart);
  nodes_.Expect(MakePod("a"), kStart);
  EXPECT_NE(nodes_.FindExpected("a"), nullptr);
  NodeNews news = nodes_.Take("n", kStart);
  EXPECT_EQ(news.reports.size(), 1);
  EXPECT_TRUE(news.missing.empty());
  nodes_.Change(nullptr, MakePod("a"), kStart);
  EXPECT_EQ(nodes_.FindExpected("a"), nullptr);
  EXPECT_TRUE(nodes_.Take("n", kStart + absl::Minutes(2)).missing.empty());
}

TEST_F(NodePodsTest, AnExpectedPodThatIsNotHeardOfIsMissing) {
  nodes_.Follow("n", kStart);
  nodes_.Expect(MakePod("a"), kStart);
  nodes_.Take("n", kStart);
  const NodeNews news = nodes_.Take("n", kStart + absl::Minutes(1));
  ASSERT_EQ(news.missing.size(), 1);
  EXPECT_EQ(nodes_.Disappoint(news.missing[0], kStart), std::set<std::string>{"n"});
  EXPECT_EQ(nodes_.Take("n", kStart).gone.size(), 1);
  EXPECT_TRUE(nodes_.Disappoint(news.missing[0], kStart).empty());
}

TEST_F(NodePodsTest, APodThatWasHeardOfIsNotExpected) {
  const PodValue pod = MakePod("a");
  nodes_.Change(nullptr, pod, kStart);
  nodes_.Expect(pod, kStart);
  EXPECT_EQ(nodes_.FindExpected("a"), nullptr);
  nodes_.Change(pod, nullptr, kStart);
  nodes_.Expect(pod, kStart);
  EXPECT_EQ(nodes_.FindExpected("a"), nullptr);
}

TEST_F(NodePodsTest, APodThatSaysAnotherNodeMovesThere) {
  const PodValue before = MakePod("a");
  nodes_.Change(nullptr, before, kStart);
  const std::set<std::string> both = {"m", "n"};
  EXPECT_EQ(nodes_.Change(before, MakePod("a", Hindrance::kNone, "m"), kStart), both);
  EXPECT_TRUE(nodes_.Take("n", kStart).reports.empty());
  EXPECT_EQ(nodes_.Take("m", kStart).reports.size(), 1);
}

}  // namespace
}  // namespace adaptdl::supervisor
