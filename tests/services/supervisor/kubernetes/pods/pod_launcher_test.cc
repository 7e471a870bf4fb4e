// Orders, from the launcher to the API server and back by the watch.

#include "services/supervisor/kubernetes/pods/pod_launcher.h"

#include <string>

#include "gmock/gmock.h"
#include "tests/services/supervisor/kubernetes/pods/pods_fixture.h"

namespace adaptdl::supervisor {
namespace {

using ::testing::HasSubstr;

class PodLauncherTest : public PodsTest {
 protected:
  // One thread carries out one order after the other, so that those before the last one are done when it is.
  void StartInTurn() {
    StartWatch();
    StartLauncher(KeepPods::kFailed, 1);
  }
  void AwaitOrders() {
    v1::LaunchReplica last = LaunchOf("last");
    last.set_namespace_("nowhere");
    launcher_->Launch(kNode, last);
    sink_.Await("last", v1::REPLICA_STATE_LOST);
  }
};

bool IsStopping(const Json& pod) { return kube::IsBeingDeleted(pod); }
bool IsReleased(const Json& pod) {
  return !pod.is_null() && kube::At(pod, {"metadata", "finalizers"}).empty();
}

TEST_F(PodLauncherTest, AReplicaFromItsLaunchToItsEnd) {
  StartBoth();
  AcknowledgeEnds();
  launcher_->Launch(kNode, LaunchOf("r"));
  seen_.Await("r", IsThere);
  EXPECT_EQ(sink_.Await("r", v1::REPLICA_STATE_LAUNCHING).job_uid(), kube::UidOf(job_));
  Run("r");
  sink_.Await("r", v1::REPLICA_STATE_RUNNING);
  End("r", 0);
  EXPECT_EQ(sink_.Await("r", v1::REPLICA_STATE_EXITED).replica().exit_code(), 0);
  seen_.Await("r", IsAbsent);
}

TEST_F(PodLauncherTest, AStoppedReplicaGoesWhenItsEndIsStored) {
  StartBoth();
  launcher_->Launch(kNode, LaunchOf("r"));
  seen_.Await("r", IsThere);
  Run("r");
  sink_.Await("r", v1::REPLICA_STATE_RUNNING);
  launcher_->Stop(kNode, StopOf("r"));
  launcher_->Stop(kNode, StopOf("r"));
  const Json stopping = seen_.Await("r", IsStopping);
  EXPECT_EQ(kube::IntegerAt(stopping, {"metadata", "deletionGracePeriodSeconds"}), 20);
  Terminate("r");
  EXPECT_EQ(sink_.Await("r", v1::REPLICA_STATE_EXITED).replica().exit_code(), 143);
  EXPECT_TRUE(client_.Get(PodOf("r")).ok());
  launcher_->Acknowledge(kNode, "r");
  seen_.Await("r", IsAbsent);
}

TEST_F(PodLauncherTest, ALaunchThatIsRepeatedMakesOnePod) {
  StartBoth();
  launcher_->Launch(kNode, LaunchOf("r"));
  const Json first = seen_.Await("r", IsThere);
  launcher_->Launch(kNode, LaunchOf("r"));
  // Orders of one pod are carried out in turn: when this one was, so was that.
  launcher_->Stop(kNode, StopOf("r"));
  // It was never bound: nobody has to stop anything.
  EXPECT_EQ(kube::UidOf(seen_.Await("r", IsStopping)), kube::UidOf(first));
  EXPECT_TRUE(sink_.Await("r", v1::REPLICA_STATE_LOST).replica().end_cause() == v1::END_CAUSE_PREEMPTION);
}

TEST_F(PodLauncherTest, APodWhoseAnswerWasLostIsFound) {
  StartBoth();
  Control("POST", "faults",
          {{{"verb", "create"}, {"resource", "pods"}, {"cut", "after"}},
           {{"verb", "create"}, {"resource", "pods"}, {"cut", "before"}},
           {{"verb", "create"}, {"resource", "pods"}, {"status", 500}}});
  launcher_->Launch(kNode, LaunchOf("r"));
  sink_.Await("r", v1::REPLICA_STATE_LAUNCHING);
  for (const auto& report : sink_.ReportsOf("r")) EXPECT_NE(report.replica().state(), v1::REPLICA_STATE_LOST);
}

TEST_F(PodLauncherTest, APodOfSomebodyElseIsNotOurs) {
  StartBoth();
  Json other = MakePod(kNode, LaunchOf("r"));
  other["metadata"].erase("ownerReferences");
  other["metadata"].erase("labels");
  ASSERT_TRUE(client_.Create(kube::Collection(kube::Pods(), "default"), other, {}).ok());
  launcher_->Launch(kNode, LaunchOf("r"));
  const v1::ReplicaReport report = sink_.Await("r", v1::REPLICA_STATE_LOST);
  EXPECT_EQ(report.replica().end_cause(), v1::END_CAUSE_JOB);
  EXPECT_THAT(report.replica().message(), HasSubstr("is not this job's"));
  EXPECT_FALSE(kube::IsBeingDeleted(*client_.Get(PodOf("r"))));
}

TEST_F(PodLauncherTest, APodThatCanNotBeMadeIsLostWithTheServersWords) {
  StartBoth();
  v1::LaunchReplica launch = LaunchOf("r");
  launch.set_namespace_("nowhere");
  launcher_->Launch(kNode, launch);
  const v1::ReplicaReport report = sink_.Await("r", v1::REPLICA_STATE_LOST);
  EXPECT_EQ(report.replica().end_cause(), v1::END_CAUSE_JOB);
  EXPECT_EQ(report.job_uid(), kube::UidOf(job_));
  EXPECT_THAT(report.replica().message(), HasSubstr("nowhere"));
}

TEST_F(PodLauncherTest, AStopTakesBackALaunchThatTheServerCouldNotDo) {
  StartBoth();
  Control("POST", "faults",
          {{{"verb", "create"}, {"resource", "pods"}, {"status", 500}, {"times", 1000000}}});
  launcher_->Launch(kNode, LaunchOf("r"));
  launcher_->Stop(kNode, StopOf("r"));
  EXPECT_THAT(sink_.Await("r", v1::REPLICA_STATE_LOST).replica().message(),
              HasSubstr("before its pod was made"));
  Control("POST", "faults", Json::array());
  launcher_->Launch(kNode, LaunchOf("s"));
  seen_.Await("s", IsThere);
  EXPECT_EQ(client_.Get(PodOf("r")).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(PodLauncherTest, OrdersOutliveAnOutage) {
  StartBoth();
  launcher_->Launch(kNode, LaunchOf("old"));
  seen_.Await("old", IsThere);
  Run("old");
  sink_.Await("old", v1::REPLICA_STATE_RUNNING);
  server_.Stop();
  launcher_->Launch(kNode, LaunchOf("new"));
  launcher_->Stop(kNode, StopOf("old"));
  const size_t hellos = sink_.hellos(kNode);
  watch_->Reconcile(kNode);
  // Nothing was lost that is there as far as is known.
  EXPECT_EQ(sink_.AwaitHello(kNode, hellos + 1).replicas_size(), 1);
  server_.Start();
  seen_.Await("new", IsThere);
  seen_.Await("old", IsStopping);
}

TEST_F(PodLauncherTest, AStopOfAPodThatIsNotThereTellsTheNode) {
  StartBoth();
  launcher_->Stop(kNode, StopOf("r"));
  EXPECT_EQ(sink_.AwaitHello(kNode, 1).replicas_size(), 0);
}

TEST_F(PodLauncherTest, FailedPodsAreKeptAndOthersAreNot) {
  StartBoth();
  AcknowledgeEnds();
  for (const char* name : {"failed", "stopped", "done"}) {
    launcher_->Launch(kNode, LaunchOf(name));
    seen_.Await(name, IsThere);
    Run(name);
  }
  End("failed", 1);
  End("stopped", 143);
  End("done", 0);
  seen_.Await("failed", IsReleased);
  seen_.Await("stopped", IsAbsent);
  seen_.Await("done", IsAbsent);
  // With its job it goes.
  const kube::ResourceType jobs = {"adaptdl.petuum.com", "v1", "adaptdljobs", "AdaptDLJob"};
  ASSERT_TRUE(client_.Delete(kube::ObjectOf(jobs, {"default", "mnist"}), {}).ok());
  seen_.Await("failed", IsAbsent);
}

TEST_F(PodLauncherTest, AllThatEndedIsKeptWhereOneSaysSo) {
  StartBoth(KeepPods::kAll);
  AcknowledgeEnds();
  launcher_->Launch(kNode, LaunchOf("done"));
  seen_.Await("done", IsThere);
  Run("done");
  End("done", 0);
  seen_.Await("done", IsReleased);
}

// A kubelet says first how containers ended, and only then that their pod is over.
TEST_F(PodLauncherTest, WhatIsKeptIsKeptThoughItsPodIsNotSaidToBeOver) {
  StartBoth(KeepPods::kFailed);
  AcknowledgeEnds();
  launcher_->Launch(kNode, LaunchOf("failed"));
  seen_.Await("failed", IsThere);
  Run("failed");
  const std::string uid = kube::UidOf(client_.Get(PodOf("failed")).value());
  EndContainer("failed", 1, "Running");
  seen_.Await("failed", IsReleased);
  // Orders of one pod are carried out one after the other. One that is there is not made.
  launcher_->Launch(kNode, LaunchOf("failed"));
  launcher_->Launch(kNode, LaunchOf("next"));
  seen_.Await("next", IsThere);
  const auto pod = client_.Get(PodOf("failed"));
  ASSERT_TRUE(pod.ok()) << pod.status();
  EXPECT_EQ(kube::UidOf(*pod), uid);
  EXPECT_FALSE(kube::IsBeingDeleted(*pod));
}

TEST_F(PodLauncherTest, NothingIsKeptWhereOneSaysSo) {
  StartBoth(KeepPods::kNone);
  AcknowledgeEnds();
  launcher_->Launch(kNode, LaunchOf("failed"));
  seen_.Await("failed", IsThere);
  Run("failed");
  End("failed", 1);
  seen_.Await("failed", IsAbsent);
}

TEST_F(PodLauncherTest, FinalizersOfOthersStay) {
  StartBoth();
  launcher_->Launch(kNode, LaunchOf("r"));
  seen_.Await("r", IsThere);
  Run("r");
  ASSERT_TRUE(
      client_
          .MergePatch(PodOf("r"),
                      {{"metadata", {{"finalizers", {"adaptdl.petuum.com/replica", "example.com/x"}}}}}, {})
          .ok());
  End("r", 0);
  sink_.Await("r", v1::REPLICA_STATE_EXITED);
  launcher_->Acknowledge(kNode, "r");
  const Json left = seen_.Await("r", IsStopping);
  EXPECT_EQ(kube::At(left, {"metadata", "finalizers"}), Json::array({"example.com/x"}));
}

TEST_F(PodLauncherTest, AReleaseThatMeetsAConflictReadsAgain) {
  StartInTurn();
  launcher_->Launch(kNode, LaunchOf("r"));
  seen_.Await("r", IsThere);
  Run("r");
  End("r", 0);
  sink_.Await("r", v1::REPLICA_STATE_EXITED);
  Deafen();
  ASSERT_TRUE(client_.MergePatch(PodOf("r"), {{"metadata", {{"labels", {{"x", "y"}}}}}}, {}).ok());
  launcher_->Acknowledge(kNode, "r");
  AwaitOrders();
  EXPECT_EQ(client_.Get(PodOf("r")).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(PodLauncherTest, TheLateCreateOfADeposedLeaderIsNoticed) {
  StartBoth();
  // What NodeManager does with a live replica that it does not know.
  sink_.Listen([this](const std::string& node, const v1::ReplicaReport& report) {
    if (report.replica().state() == v1::REPLICA_STATE_LAUNCHING) {
      launcher_->Stop(node, StopOf(report.replica().replica_id()));
    } else {
      launcher_->Acknowledge(node, report.replica().replica_id());
    }
  });
  ASSERT_TRUE(watch_->AwaitSynced({}));
  Create(kNode, "late");
  sink_.Await("late", v1::REPLICA_STATE_LOST);
  seen_.Await("late", IsAbsent);
}

TEST_F(PodLauncherTest, AStopDoesNotMeetANewPodOfTheSameName) {
  StartInTurn();
  launcher_->Launch(kNode, LaunchOf("r"));
  const std::string uid = kube::UidOf(seen_.Await("r", IsThere));
  sink_.Await("r", v1::REPLICA_STATE_LAUNCHING);
  Deafen();
  ASSERT_TRUE(client_.Delete(PodOf("r"), {}).ok());
  ASSERT_TRUE(client_.MergePatch(PodOf("r"), {{"metadata", {{"finalizers", nullptr}}}}, {}).ok());
  Create(kNode, "r");
  launcher_->Stop(kNode, StopOf("r"));
  launcher_->Acknowledge(kNode, "r");
  AwaitOrders();
  const Json pod = *client_.Get(PodOf("r"));
  EXPECT_NE(kube::UidOf(pod), uid);
  EXPECT_FALSE(kube::IsBeingDeleted(pod));
}

// Says how long pods are to stay, and remembers who was followed.
class SlowKeeper final : public OutputKeeper {
 public:
  void Follow(const PodValue& pod) override {
    MutexLock lock(&mutex_);
    EXPECT_FALSE(pod->is_being_deleted);
    followed_ = pod->key.name;
  }
  absl::Duration Detain(const PodValue& pod) override {
    MutexLock lock(&mutex_);
    detained_ = pod->key.name;
    changed_.SignalAll();
    return wait_;
  }

  void LetGo() {
    MutexLock lock(&mutex_);
    wait_ = absl::ZeroDuration();
  }
  void AwaitDetained(const std::string& name) {
    MutexLock lock(&mutex_);
    while (detained_ != name) changed_.Wait(&mutex_);
  }
  std::string followed() {
    MutexLock lock(&mutex_);
    return followed_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  absl::Duration wait_ ABSL_GUARDED_BY(mutex_) = absl::Hours(1);
  std::string followed_ ABSL_GUARDED_BY(mutex_);
  std::string detained_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(PodLauncherTest, APodStaysUntilItsOutputIsKept) {
  SlowKeeper keeper;
  output_ = &keeper;
  StartBoth();
  AcknowledgeEnds();
  launcher_->Launch(kNode, LaunchOf("r"));
  seen_.Await("r", IsThere);
  Run("r");
  sink_.Await("r", v1::REPLICA_STATE_RUNNING);
  launcher_->Stop(kNode, StopOf("r"));
  seen_.Await("r", IsStopping);
  EXPECT_EQ(keeper.followed(), "r");
  Terminate("r");
  keeper.AwaitDetained("r");
  EXPECT_TRUE(client_.Get(PodOf("r")).ok());
  keeper.LetGo();
  launcher_->Reconsider("r");
  seen_.Await("r", IsAbsent);
}

TEST_F(PodLauncherTest, OrdersMayComeForAnyNode) {
  StartBoth();
  EXPECT_TRUE(launcher_->Connected(kNode));
}

}  // namespace
}  // namespace adaptdl::supervisor
