// What becomes of pods, as the sink is told it.

#include "services/supervisor/kubernetes/pods/pod_watch.h"

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "tests/services/supervisor/kubernetes/pods/pods_fixture.h"

namespace adaptdl::supervisor {
namespace {

using ::testing::HasSubstr;

class PodWatchTest : public PodsTest {};

TEST_F(PodWatchTest, AListIsToldAsAWhole) {
  Create(kNode, "a");
  Create(kNode, "b");
  StartWatch();
  EXPECT_EQ(sink_.AwaitHello(kNode, 1).replicas_size(), 2);
  // The server forgets what has happened: there is another list.
  Control("POST", "compact");
  Create(kNode, "c");
  Control("POST", "cut");
  Control("POST", "compact");
  sink_.Await("c", v1::REPLICA_STATE_LAUNCHING);
}

TEST_F(PodWatchTest, AThousandPodsInOneList) {
  constexpr int kNodes = 10;
  constexpr int kPods = 1000;
  for (int i = 0; i < kNodes; ++i) sink_.Register(absl::StrCat("n", i));
  for (int i = 0; i < kPods; ++i) Create(absl::StrCat("n", i % kNodes), absl::StrCat("r", i));
  StartWatch();
  std::set<std::string> told;
  for (int i = 0; i < kNodes; ++i) {
    const v1::NodeHello hello = sink_.AwaitHello(absl::StrCat("n", i), 1);
    for (const auto& report : hello.replicas()) {
      EXPECT_TRUE(told.insert(report.replica().replica_id()).second);
    }
  }
  EXPECT_EQ(told.size(), kPods);
  EXPECT_NE(watch_->Find("r7"), nullptr);
  EXPECT_EQ(watch_->Find("r1000"), nullptr);
}

TEST_F(PodWatchTest, PodsOfANodeThatIsNotRegisteredAreToldOneByOne) {
  Create("unknown", "a");
  StartWatch();
  sink_.Await("a", v1::REPLICA_STATE_LAUNCHING);
  EXPECT_EQ(sink_.hellos("unknown"), 0);
  sink_.Register("unknown");
  watch_->Reconcile("unknown");
  EXPECT_EQ(sink_.AwaitHello("unknown", 1).replicas_size(), 1);
}

TEST_F(PodWatchTest, AnEmptyNodeIsToldWhenItIsRegistered) {
  StartWatch();
  watch_->Reconcile(kNode);
  EXPECT_EQ(sink_.AwaitHello(kNode, 1).replicas_size(), 0);
}

TEST_F(PodWatchTest, AFollowedNodeIsToldPeriodicallyAndAForgottenOneIsNot) {
  StartWatch({.reconcile_period = absl::Milliseconds(1)});
  sink_.Register("gone");
  watch_->Reconcile("gone");
  sink_.AwaitHello("gone", 3);
  watch_->Forget("gone");
  watch_->Reconcile(kNode);
  // One may have been on its way.
  sink_.AwaitHello(kNode, 3);
  const size_t told = sink_.hellos("gone");
  sink_.AwaitHello(kNode, 10);
  EXPECT_LE(sink_.hellos("gone"), told + 1);
}

TEST_F(PodWatchTest, WhatTheSinkRefusesIsToldAgain) {
  sink_.Answer(absl::UnavailableError("not now"));
  StartWatch();
  Create(kNode, "a");
  sink_.AwaitCalls(3);
  sink_.Answer(absl::OkStatus());
  sink_.Await("a", v1::REPLICA_STATE_LAUNCHING);
}

TEST_F(PodWatchTest, APodThatOthersHaveDeletedIsLost) {
  StartWatch();
  Create(kNode, "a");
  Run("a");
  sink_.Await("a", v1::REPLICA_STATE_RUNNING);
  ASSERT_TRUE(client_.MergePatch(PodOf("a"), {{"metadata", {{"finalizers", nullptr}}}}, {}).ok());
  ASSERT_TRUE(client_.Delete(PodOf("a"), {.grace_period = absl::ZeroDuration()}).ok());
  EXPECT_EQ(sink_.Await("a", v1::REPLICA_STATE_LOST).replica().end_cause(), v1::END_CAUSE_PREEMPTION);
}

TEST_F(PodWatchTest, APodThatOthersHaveDeletedForGoodIsLostThoughItsFinalizerKeepsIt) {
  StartWatch();
  Create(kNode, "a");
  Run("a");
  ASSERT_TRUE(client_.Delete(PodOf("a"), {.grace_period = absl::ZeroDuration()}).ok());
  EXPECT_EQ(sink_.Await("a", v1::REPLICA_STATE_LOST).replica().end_cause(), v1::END_CAUSE_PREEMPTION);
  EXPECT_TRUE(client_.Get(PodOf("a")).ok());
}

TEST_F(PodWatchTest, APodThatIsAskedToStopRunsUntilItHas) {
  StartWatch();
  Create(kNode, "a");
  Run("a");
  ASSERT_TRUE(client_.Delete(PodOf("a"), {}).ok());
  Terminate("a");
  EXPECT_EQ(sink_.Await("a", v1::REPLICA_STATE_EXITED).replica().exit_code(), 143);
  for (const auto& report : sink_.ReportsOf("a")) EXPECT_NE(report.replica().state(), v1::REPLICA_STATE_LOST);
}

TEST_F(PodWatchTest, APodGoesWithItsNode) {
  StartWatch();
  Create(kNode, "a");
  Run("a");
  ASSERT_TRUE(SetStatus("a", {{"phase", "Unknown"}}).ok());
  ASSERT_TRUE(client_.Delete(PodOf("a"), {.grace_period = absl::ZeroDuration()}).ok());
  EXPECT_EQ(sink_.Await("a", v1::REPLICA_STATE_LOST).replica().end_cause(), v1::END_CAUSE_NODE);
}

TEST_F(PodWatchTest, APodOnAnotherNodeThanItsOwnIsLost) {
  StartWatch();
  Create(kNode, "a");
  ASSERT_TRUE(Bind("a", "node-2").ok());
  EXPECT_THAT(sink_.Await("a", v1::REPLICA_STATE_LOST).replica().message(),
              HasSubstr("node-2, not to node-1"));
}

TEST_F(PodWatchTest, APodThatFindsNoRoomIsLost) {
  StartWatch({.unschedulable_deadline = absl::Milliseconds(1)});
  Create(kNode, "a");
  const Json condition = {
      {"type", "PodScheduled"}, {"status", "False"}, {"reason", "Unschedulable"}, {"message", "0/1 nodes"}};
  ASSERT_TRUE(SetStatus("a", {{"conditions", Json::array({condition})}}).ok());
  const v1::ReplicaReport report = sink_.Await("a", v1::REPLICA_STATE_LOST);
  EXPECT_EQ(report.replica().end_cause(), v1::END_CAUSE_NODE);
  EXPECT_THAT(report.replica().message(), HasSubstr("0/1 nodes"));
}

TEST_F(PodWatchTest, APodOfNobodyIsNotTold) {
  StartWatch();
  Json pod = MakePod(kNode, LaunchOf("alien"));
  pod["metadata"]["labels"] = {{"adaptdl", "false"}};
  ASSERT_TRUE(client_.Create(kube::Collection(kube::Pods(), "default"), pod, {}).ok());
  Create(kNode, "ours");
  sink_.Await("ours", v1::REPLICA_STATE_LAUNCHING);
  EXPECT_TRUE(sink_.ReportsOf("alien").empty());
  EXPECT_EQ(watch_->Find("alien"), nullptr);
}

TEST_F(PodWatchTest, APodThatOnlyLooksLikeAReplicaIsNobodys) {
  is_foreign_ = [](const Pod& pod) { return pod.key.name == "alien"; };
  StartWatch();
  Create(kNode, "alien");
  Create(kNode, "ours");
  sink_.Await("ours", v1::REPLICA_STATE_LAUNCHING);
  EXPECT_TRUE(sink_.ReportsOf("alien").empty());
  EXPECT_EQ(watch_->Find("alien"), nullptr);
}

TEST_F(PodWatchTest, APodThatIsExpectedCountsAsThereAndIsLookedFor) {
  StartWatch({.reconcile_period = absl::Milliseconds(1)});
  ASSERT_TRUE(watch_->AwaitSynced({}));
  Deafen();
  watch_->Expect(Create(kNode, "a"));
  EXPECT_NE(watch_->Find("a"), nullptr);
  watch_->Reconcile(kNode);
  sink_.Await("a", v1::REPLICA_STATE_LAUNCHING);
  ASSERT_TRUE(client_.Delete(PodOf("a"), {}).ok());
  ASSERT_TRUE(client_.MergePatch(PodOf("a"), {{"metadata", {{"finalizers", nullptr}}}}, {}).ok());
  sink_.Await("a", v1::REPLICA_STATE_LOST);
  EXPECT_EQ(watch_->Find("a"), nullptr);
}

}  // namespace
}  // namespace adaptdl::supervisor
