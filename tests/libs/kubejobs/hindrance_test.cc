#include "libs/kubejobs/hindrance.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/kubejobs/pod_state.h"
#include "tests/libs/kubejobs/pods.h"

namespace adaptdl::kubejobs {
namespace {

using kube::Json;
using testing::HasSubstr;
using Kind = Hindrance::Kind;

const absl::Time kSince = absl::FromUnixSeconds(1767323040);

TEST(HindranceTest, NothingHindersWhatGoesOn) {
  EXPECT_EQ(HindranceOf(NewPod()).kind, Kind::kNone);
  EXPECT_EQ(HindranceOf(RunningPod()).kind, Kind::kNone);
  EXPECT_EQ(HindranceOf(WaitingPod("ContainerCreating")).kind, Kind::kNone);
  EXPECT_EQ(HindranceOf(WithCondition(FailedPod("OutOfcpu"), "PodScheduled", "False", "x")).kind, Kind::kNone);
}

TEST(HindranceTest, NoRoom) {
  const Hindrance hindrance = HindranceOf(WithCondition(NewPod(), "PodScheduled", "False", "Unschedulable"));
  EXPECT_EQ(hindrance.kind, Kind::kUnschedulable);
  EXPECT_EQ(hindrance.why, "Unschedulable: some words");
  EXPECT_EQ(hindrance.since, kSince);
}

TEST(HindranceTest, NoImage) {
  for (const char* reason : {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"}) {
    for (const char* list : {"containerStatuses", "initContainerStatuses"}) {
      const Hindrance hindrance = HindranceOf(WaitingPod(reason, list));
      EXPECT_EQ(hindrance.kind, Kind::kImage) << reason;
      EXPECT_EQ(hindrance.cause, v1::END_CAUSE_IMAGE);
      EXPECT_THAT(hindrance.why, HasSubstr(reason));
      EXPECT_EQ(hindrance.since, kSince);
    }
  }
}

TEST(HindranceTest, NoContainer) {
  EXPECT_EQ(HindranceOf(WaitingPod("CreateContainerConfigError")).cause, v1::END_CAUSE_JOB);
  for (const char* reason : {"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}) {
    EXPECT_EQ(HindranceOf(WaitingPod(reason)).kind, Kind::kContainer) << reason;
  }
}

TEST(HindranceTest, WhatLastsTooLongIsLost) {
  const Json pod = WaitingPod("ImagePullBackOff");
  const v1::ReplicaReport report = Overdue(*ReportOf(pod), HindranceOf(pod));
  EXPECT_EQ(report.job_uid(), "6f1c");
  EXPECT_EQ(report.replica().state(), v1::REPLICA_STATE_LOST);
  EXPECT_EQ(report.replica().end_cause(), v1::END_CAUSE_IMAGE);
  EXPECT_EQ(report.replica().message(), "container main: ImagePullBackOff: why");
}

TEST(HindranceTest, OddPodsAreNoTrouble) {
  for (const char* text : {"null", R"({"status": []})", R"({"status": {"conditions": [3], "containerStatuses": [3]}})",
                           R"({"status": {"conditions": {}, "initContainerStatuses": "x"}})"}) {
    EXPECT_EQ(HindranceOf(Json::parse(text)).kind, Kind::kNone) << text;
  }
}

}  // namespace
}  // namespace adaptdl::kubejobs
