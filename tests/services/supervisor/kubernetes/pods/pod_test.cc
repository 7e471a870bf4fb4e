#include "services/supervisor/kubernetes/pods/pod.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/utf8.h"

namespace adaptdl::supervisor {
namespace {

using kube::Json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A replica's pod with these fields.
Pod Parse(const std::string& text) {
  Json pod = kube::ParseJson(R"({"metadata": {"name": "r", "labels": {"adaptdl": "true"}, "ownerReferences":
    [{"kind": "AdaptDLJob", "name": "j", "uid": "ju", "controller": true}]}})")
                 .value();
  pod.merge_patch(kube::ParseJson(text).value());
  return ParsePod(pod);
}

TEST(PodTest, WhatIsKeptOfOne) {
  const Pod pod = Parse(R"({"metadata": {"name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "7",
    "annotations": {"adaptdl/node": "n"}, "finalizers": ["a/b", "adaptdl.petuum.com/replica"],
    "ownerReferences": [{"kind": "AdaptDLJob", "name": "j", "uid": "ju", "controller": true}],
    "deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 5},
    "spec": {"nodeName": "m", "containers": [{"name": "main"}, {"name": "side"}]}, "status": {"phase": "Running"}})");
  EXPECT_EQ(pod.key.ToString(), "ns/p");
  EXPECT_EQ(pod.uid, "u");
  EXPECT_EQ(pod.resource_version, "7");
  EXPECT_EQ(pod.job_uid, "ju");
  EXPECT_EQ(pod.node, "n");
  EXPECT_EQ(pod.bound_node, "m");
  EXPECT_EQ(pod.container, "main");
  EXPECT_TRUE(pod.has_our_finalizer);
  EXPECT_THAT(pod.other_finalizers, ElementsAre("a/b"));
  EXPECT_TRUE(pod.is_being_deleted);
  EXPECT_EQ(pod.deletion_grace, absl::Seconds(5));
  EXPECT_FALSE(pod.HasEnded());
}

TEST(PodTest, OneHasEndedWhenAllItsContainersHave) {
  const std::string spec =
      R"({"spec": {"containers": [{"name": "main"}, {"name": "side"}]}, "status": {"phase": "Running",
    "containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": 0}}}, {"name": "side", "state": {)";
  EXPECT_FALSE(Parse(spec + R"("running": {}}}]}})").HasEnded());
  EXPECT_TRUE(Parse(spec + R"("terminated": {"exitCode": 0}}}]}})").HasEnded());
  EXPECT_FALSE(Parse(R"({"status": {"phase": "Running", "containerStatuses": []}})").HasEnded());
  EXPECT_TRUE(Parse(R"({"status": {"phase": "Failed", "reason": "Evicted"}})").HasEnded());
}

TEST(PodTest, AnythingCanBeInOne) {
  for (const char* text :
       {"null", "[]", "{}", "7", R"({"metadata": 7})",
        R"({"metadata": {"finalizers": {"a": 1}, "ownerReferences": 1}})",
        R"({"metadata": {"finalizers": [7, null]}, "spec": {"containers": "x"}})",
        R"({"spec": {"containers": [7]}, "status": {"phase": "Pending", "conditions": [1, {"type": 7}],
            "containerStatuses": [{"state": 7}, null], "initContainerStatuses": {}}})"}) {
    const Pod pod = ParsePod(kube::ParseJson(text).value());
    EXPECT_EQ(pod.hindrance, Hindrance::kNone) << text;
    EXPECT_FALSE(pod.has_our_finalizer) << text;
  }
}

TEST(PodTest, WhatKeepsOneFromRunning) {
  const Pod image = Parse(R"({"status": {"phase": "Pending", "containerStatuses": [
    {"state": {"running": {}}}, {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}]}})");
  EXPECT_EQ(image.hindrance, Hindrance::kImage);
  EXPECT_EQ(ReportOfHindered(image).replica().end_cause(), v1::END_CAUSE_IMAGE);
  EXPECT_EQ(ReportOfHindered(image).replica().message(), "ImagePullBackOff: no such image");
  const Pod spec = Parse(R"({"status": {"phase": "Pending", "initContainerStatuses": [
    {"state": {"waiting": {"reason": "CreateContainerConfigError"}}}]}})");
  EXPECT_EQ(spec.hindrance, Hindrance::kSpec);
  EXPECT_EQ(ReportOfHindered(spec).replica().end_cause(), v1::END_CAUSE_JOB);
  // It is what every pod says for a while.
  EXPECT_EQ(Parse(R"({"status": {"phase": "Pending", "containerStatuses": [
    {"state": {"waiting": {"reason": "ContainerCreating"}}}]}})")
                .hindrance,
            Hindrance::kNone);
}

TEST(PodTest, WordsOfTheClusterAreBounded) {
  const Json pod = {{"status",
                     {{"phase", "Pending"},
                      {"conditions", Json::array({{{"type", "PodScheduled"},
                                                   {"status", "False"},
                                                   {"reason", "Unschedulable"},
                                                   {"message", std::string(100'000, 'x')}}})}}}};
  const Pod parsed = Parse(kube::Dump(pod));
  EXPECT_EQ(parsed.hindrance, Hindrance::kUnschedulable);
  EXPECT_LE(ReportOfHindered(parsed).replica().message().size(), 1000);
}

TEST(PodTest, AnEndThatWasSeenIsNotLost) {
  Pod pod = Parse("{}");
  pod.report.mutable_replica()->set_state(v1::REPLICA_STATE_EXITED);
  pod.is_being_deleted = true;
  EXPECT_EQ(ReportOf(pod).replica().state(), v1::REPLICA_STATE_EXITED);
  EXPECT_EQ(ReportOfGone(pod).replica().state(), v1::REPLICA_STATE_EXITED);
}

TEST(PodTest, OneThatIsNotOursIsNoReplica) {
  EXPECT_TRUE(Parse("{}").IsReplica());
  EXPECT_FALSE(Parse(R"({"metadata": {"labels": null}})").IsReplica());
  EXPECT_FALSE(Parse(R"({"metadata": {"ownerReferences": null}})").IsReplica());
}

}  // namespace
}  // namespace adaptdl::supervisor
