#include "libs/kubejobs/pod_state.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/libs/kubejobs/oddities.h"
#include "tests/libs/kubejobs/pods.h"

namespace adaptdl::kubejobs {
namespace {

using kube::Json;
using testing::HasSubstr;

v1::Replica ReplicaOf(const Json& pod) {
  const auto report = ReportOf(pod);
  EXPECT_TRUE(report.has_value());
  return report.has_value() ? report->replica() : v1::Replica();
}

void ExpectLost(const Json& pod, v1::EndCause cause) {
  const v1::Replica replica = ReplicaOf(pod);
  EXPECT_EQ(replica.state(), v1::REPLICA_STATE_LOST) << pod["status"];
  EXPECT_EQ(replica.end_cause(), cause) << pod["status"];
  EXPECT_NE(replica.message(), "") << pod["status"];
}

void ExpectExit(const Json& pod, int code, int signal, v1::EndCause cause) {
  const v1::Replica replica = ReplicaOf(pod);
  EXPECT_EQ(replica.state(), v1::REPLICA_STATE_EXITED) << pod["status"];
  EXPECT_EQ(replica.exit_code(), code) << pod["status"];
  EXPECT_EQ(replica.signal(), signal) << pod["status"];
  EXPECT_EQ(replica.end_cause(), cause) << pod["status"];
}

TEST(PodStateTest, OnlyReplicasAreReported) {
  EXPECT_TRUE(ReportOf(NewPod()).has_value());
  Json pod = NewPod();
  pod["metadata"]["labels"].erase("adaptdl");
  EXPECT_FALSE(ReportOf(pod).has_value());
  pod = NewPod();
  pod["metadata"]["ownerReferences"][0]["kind"] = "Job";
  EXPECT_FALSE(ReportOf(pod).has_value());
  pod = NewPod();
  pod["metadata"]["ownerReferences"][0]["controller"] = false;
  EXPECT_FALSE(ReportOf(pod).has_value());
  for (const char* text : {"null", "[]", "7", R"({"metadata": 3})", R"({"metadata": {"labels": []}})"}) {
    EXPECT_FALSE(ReportOf(Json::parse(text)).has_value()) << text;
  }
}

TEST(PodStateTest, LifeOfAReplica) {
  EXPECT_EQ(ReplicaOf(NewPod()).state(), v1::REPLICA_STATE_LAUNCHING);
  EXPECT_EQ(ReplicaOf(WaitingPod("ContainerCreating")).state(), v1::REPLICA_STATE_LAUNCHING);
  const v1::Replica running = ReplicaOf(RunningPod());
  EXPECT_EQ(running.state(), v1::REPLICA_STATE_RUNNING);
  EXPECT_EQ(running.start_time().seconds(), 1767323045);
  EXPECT_EQ(ReplicaOf(Deleted(RunningPod())).state(), v1::REPLICA_STATE_RUNNING)
      << "it may write a checkpoint";
  ExpectExit(EndedPod(0), 0, 0, v1::END_CAUSE_UNSPECIFIED);
  const v1::Replica ended = ReplicaOf(EndedPod(3));
  EXPECT_EQ(ended.exit_code(), 3);
  EXPECT_EQ(ended.end_time().seconds() - ended.start_time().seconds(), 60);
}

TEST(PodStateTest, ExitCodesAboveAreSignals) {
  ExpectExit(EndedPod(1), 1, 0, v1::END_CAUSE_UNSPECIFIED);
  ExpectExit(EndedPod(75), 75, 0, v1::END_CAUSE_UNSPECIFIED);
  ExpectExit(EndedPod(128), 128, 0, v1::END_CAUSE_UNSPECIFIED);
  ExpectExit(EndedPod(137), 0, 9, v1::END_CAUSE_UNSPECIFIED);
  ExpectExit(EndedPod(139), 0, 11, v1::END_CAUSE_UNSPECIFIED);
  ExpectExit(EndedPod(143), 143, 0, v1::END_CAUSE_UNSPECIFIED);
  ExpectExit(EndedPod(255), 255, 0, v1::END_CAUSE_UNSPECIFIED);
  Json pod = EndedPod(1);
  pod["status"]["containerStatuses"][0]["state"]["terminated"]["signal"] = 6;
  ExpectExit(pod, 0, 6, v1::END_CAUSE_UNSPECIFIED);
}

TEST(PodStateTest, WhatOthersStopIsPreempted) {
  ExpectExit(Deleted(EndedPod(143)), 143, 0, v1::END_CAUSE_PREEMPTION);
  ExpectExit(Deleted(EndedPod(137)), 0, 9, v1::END_CAUSE_PREEMPTION);
  for (const char* reason : {"PreemptionByScheduler", "DeletionByTaintManager", "EvictionByEvictionAPI",
                             "DeletionByPodGC", "TerminationByKubelet"}) {
    ExpectExit(WithCondition(EndedPod(143), "DisruptionTarget", "True", reason), 143, 0,
               v1::END_CAUSE_PREEMPTION);
  }
  ExpectExit(WithCondition(EndedPod(1), "DisruptionTarget", "False", ""), 1, 0, v1::END_CAUSE_UNSPECIFIED);
  for (const char* reason : {"NodeLost", "NodeShutdown", "Shutdown", "Terminated", "Preempting"}) {
    ExpectLost(FailedPod(reason), v1::END_CAUSE_PREEMPTION);
    Json pod = EndedPod(143);
    pod["status"]["reason"] = reason;
    ExpectExit(pod, 143, 0, v1::END_CAUSE_PREEMPTION);
    EXPECT_THAT(ReplicaOf(pod).message(), HasSubstr(reason));
  }
  ExpectLost(Deleted(NewPod()), v1::END_CAUSE_PREEMPTION);
}

TEST(PodStateTest, EvictionsAreTheNodesNeedOrTheJobsExcess) {
  ExpectLost(FailedPod("Evicted",
                       "The node was low on resource: memory. Container main was using 9Gi, request is 1Gi, "
                       "has larger consumption of memory, which exceeds its request."),
             v1::END_CAUSE_PREEMPTION);
  ExpectLost(FailedPod("Evicted", "Container main exceeded its local ephemeral storage limit \"1Gi\". "),
             v1::END_CAUSE_JOB);
  ExpectLost(FailedPod("Evicted", "Usage of EmptyDir volume \"x\" exceeds the limit \"1Gi\". "),
             v1::END_CAUSE_JOB);
}

TEST(PodStateTest, WhatANodeDoesNotTakeIsItsOwnFault) {
  for (const char* reason :
       {"OutOfcpu", "OutOfmemory", "OutOfnvidia.com/gpu", "Outofpods", "UnexpectedAdmissionError",
        "NodeAffinity", "NodePorts", "TopologyAffinityError"}) {
    ExpectLost(FailedPod(reason, "words"), v1::END_CAUSE_NODE);
  }
  ExpectLost(EndedPod(137, "ContainerStatusUnknown"), v1::END_CAUSE_NODE);
  ExpectLost(Deleted(EndedPod(137, "ContainerStatusUnknown")), v1::END_CAUSE_PREEMPTION);
}

TEST(PodStateTest, LimitsAreTheJobs) {
  ExpectExit(EndedPod(137, "OOMKilled"), 0, 9, v1::END_CAUSE_JOB);
  EXPECT_THAT(ReplicaOf(EndedPod(137, "OOMKilled")).message(), HasSubstr("OOMKilled"));
  ExpectLost(FailedPod("DeadlineExceeded", "Pod was active on the node longer than the specified deadline"),
             v1::END_CAUSE_JOB);
}

TEST(PodStateTest, ProgramsThatCannotBeStarted) {
  Json pod = EndedPod(128, "StartError");
  pod["status"]["containerStatuses"][0]["state"]["terminated"]["message"] =
      "exec: \"trian\": not found in $PATH";
  ExpectLost(pod, v1::END_CAUSE_IMAGE);
  EXPECT_THAT(ReplicaOf(pod).message(), HasSubstr("trian"));
  ExpectLost(EndedPod(127, "ContainerCannotRun"), v1::END_CAUSE_IMAGE);
}

TEST(PodStateTest, TheTerminationMessageOfAProgramIsItsLastWords) {
  Json pod = EndedPod(1, "Error");
  pod["status"]["containerStatuses"][0]["state"]["terminated"]["message"] = "step 1\nno such dataset\n";
  ExpectExit(pod, 1, 0, v1::END_CAUSE_UNSPECIFIED);
  EXPECT_EQ(ReplicaOf(pod).message(), "its last words: no such dataset");
  pod["status"]["reason"] = "Shutdown";
  EXPECT_EQ(ReplicaOf(pod).message(), "Shutdown");
}

TEST(PodStateTest, InitContainersThatFailEndTheReplica) {
  Json pod = FailedPod("", "");
  pod["status"]["initContainerStatuses"] = Json::parse(R"([
      {"name": "first", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}},
      {"name": "fetch", "state": {"terminated": {"exitCode": 4, "reason": "Error"}}}])");
  pod["status"]["containerStatuses"] = Json::parse(R"([
      {"name": "main", "state": {"waiting": {"reason": "PodInitializing"}}}])");
  ExpectExit(pod, 4, 0, v1::END_CAUSE_UNSPECIFIED);
  EXPECT_THAT(ReplicaOf(pod).message(), HasSubstr("init container fetch failed"));
}

TEST(PodStateTest, TheMainContainerDecides) {
  Json pod = RunningPod();
  pod["spec"]["containers"] = Json::parse(R"([{"name": "proxy"}, {"name": "main"}])");
  pod["metadata"]["annotations"]["kubectl.kubernetes.io/default-container"] = "main";
  EXPECT_EQ(MainContainer(pod), "main");
  const Json proxy = Json::parse(R"({"name": "proxy", "state": {"terminated": {"exitCode": 1}}})");
  pod["status"]["containerStatuses"].insert(pod["status"]["containerStatuses"].begin(), proxy);
  EXPECT_EQ(ReplicaOf(pod).state(), v1::REPLICA_STATE_RUNNING);
  pod["status"]["containerStatuses"][1]["state"] = Json::parse(R"({"terminated": {"exitCode": 0}})");
  pod["status"]["containerStatuses"][0]["state"] = Json::parse(R"({"running": {}})");
  ExpectExit(pod, 0, 0, v1::END_CAUSE_UNSPECIFIED);
  pod["metadata"]["annotations"].erase("kubectl.kubernetes.io/default-container");
  EXPECT_EQ(MainContainer(pod), "proxy");
  pod["metadata"]["annotations"]["kubectl.kubernetes.io/default-container"] = "none of them";
  EXPECT_EQ(MainContainer(pod), "proxy");
}

TEST(PodStateTest, WhatCannotBeToldIsAsItWas) {
  Json pod = RunningPod();
  pod["status"]["phase"] = "Unknown";
  EXPECT_EQ(ReplicaOf(pod).state(), v1::REPLICA_STATE_RUNNING);
  pod["status"].erase("containerStatuses");
  EXPECT_EQ(ReplicaOf(pod).state(), v1::REPLICA_STATE_LAUNCHING);
}

TEST(PodStateTest, OddStatusesAreNoTrouble) {
  for (
      const char* text :
      {"7", "[]", R"({"phase": 3})", R"({"phase": "Failed", "containerStatuses": 1})",
       R"({"phase": "Failed", "containerStatuses": [1, {"name": "main", "state": {"terminated": {"exitCode": "x"}}}]})",
       R"({"phase": "Failed", "initContainerStatuses": [null], "conditions": {}})",
       R"({"containerStatuses": [{"name": "main", "state": {"running": {"startedAt": "yesterday"}}}]})"}) {
    Json pod = NewPod();
    pod["status"] = Json::parse(text);
    pod["metadata"]["annotations"]["adaptdl/rank"] = "-3";
    pod["metadata"]["annotations"]["adaptdl/group"] = "99999999999999999999";
    const v1::Replica replica = ReplicaOf(pod);
    EXPECT_EQ(replica.rank(), 0);
    EXPECT_EQ(replica.group(), 0);
    EXPECT_FALSE(replica.has_start_time());
  }
  Json pod = EndedPod(1);
  pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] = int64_t{1} << 40;
  EXPECT_LE(ReplicaOf(pod).exit_code(), 255);
  EXPECT_LE(ReplicaOf(FailedPod("Evicted", std::string(1 << 20, 'x'))).message().size(), 1024U);
}

TEST(PodStateTest, WhateverAPodHoldsIsReadOrPassedOver) {
  const Json pod = WithCondition(Deleted(EndedPod(143)), "DisruptionTarget", "True", "EvictionByEvictionAPI");
  int reports = 0;
  ForEachOddity(pod, [&](const Json& odd) {
    const auto report = ReportOf(odd);
    if (!report.has_value()) return;
    ++reports;
    EXPECT_NE(report->replica().state(), v1::REPLICA_STATE_UNSPECIFIED) << odd;
  });
  EXPECT_GT(reports, 0);
}

}  // namespace
}  // namespace adaptdl::kubejobs
