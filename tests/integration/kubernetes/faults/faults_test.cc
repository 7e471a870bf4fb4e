// What goes wrong around the operator: a job trains on, follows what is decided afterwards, and leaves nothing behind.

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "libs/kube/client/resource_type.h"
#include "libs/kubejobs/names.h"
#include "tests/integration/kubernetes/faults/fault_run.h"

namespace adaptdl::integration {
namespace {

constexpr char kJob[] = "trains";
const std::vector<std::string> kOne = {"node-0"};
const std::vector<std::string> kTwo = {"node-0", "node-1"};
const std::vector<std::string> kOther = {"node-2"};

class KubernetesFaultTest : public FaultRun {
 protected:
  using FaultRun::FaultRun;

  v1::JobStatus Status() {
    const auto job = cluster_.GetJob(kJob);
    return job.ok() ? job->status() : v1::JobStatus();
  }
};

// Longer than the Lease lasts: nobody can take it meanwhile, so who had it goes on.
TEST_F(KubernetesFaultTest, WithoutTheApiServerJobsTrainOnAndDecisionsWait) {
  const absl::Duration away = TriesAll() ? absl::Minutes(1) : absl::Seconds(4);
  ASSERT_NO_FATAL_FAILURE(StartJob(kJob, "in-place", kTwo));
  const int64_t group = GroupOf(kJob);
  api_.Stop();
  const absl::Time back = absl::Now() + away;
  while (absl::Now() < back) AwaitSteps(kJob);
  EXPECT_EQ(Status().group(), group);
  api_.Start();
  AwaitSteps(kJob);
  ASSERT_NO_FATAL_FAILURE(Rescale(kJob, kOne));
  ASSERT_NO_FATAL_FAILURE(Rescale(kJob, kTwo));
  EXPECT_EQ(cluster_.supervisor().Wait(absl::ZeroDuration()), -1) << "it has led all the time";
  EXPECT_EQ(Status().restarts(), 0);
  FinishJob(kJob);
}

// What happens to pods while nobody can be told of it is found by the next list.
TEST_F(KubernetesFaultTest, WhatTheApiServerHasForgottenIsListedAnew) {
  ASSERT_NO_FATAL_FAILURE(StartJob(kJob, "in-place", kTwo));
  for (const auto& nodes : {kOne, kTwo, kOther}) {
    const int64_t before = GroupOf(kJob);
    ASSERT_NO_FATAL_FAILURE(Decide(kJob, nodes));
    for (int i = 0; i < 20; ++i) {
      Control("POST", "compact");
      Control("POST", "cut");
      if (HasChanged(kJob, nodes, before)) break;
    }
    ASSERT_NO_FATAL_FAILURE(AwaitGroup(kJob, nodes, before));
  }
  EXPECT_EQ(Status().restarts(), 0);
  FinishJob(kJob);
}

TEST_F(KubernetesFaultTest, OthersChangeTheSameObjectsAllTheTime) {
  ASSERT_NO_FATAL_FAILURE(StartJob(kJob, "in-place", kOne));
  const kube::ResourceType jobs = {kubejobs::kGroup, kubejobs::kVersion, kubejobs::kJobPlural,
                                   kubejobs::kJobKind};
  std::jthread others([&](const std::stop_token& stop) {
    for (int i = 0; !stop.stop_requested(); ++i) {
      const kube::Json patch = {{"metadata", {{"annotations", {{"others/count", absl::StrCat(i)}}}}}};
      const kube::ChangeOptions by = {.field_manager = "others"};
      (void)client_.MergePatch(kube::ObjectOf(jobs, {"default", kJob}), patch, by);
      for (const kube::Json& pod : Pods(kJob))
        (void)client_.MergePatch(kube::ObjectOf(kube::Pods(), kube::KeyOf(pod)), patch, by);
    }
  });
  for (const auto& nodes : {kTwo, kOne, kOther}) ASSERT_NO_FATAL_FAILURE(Rescale(kJob, nodes));
  others = {};
  EXPECT_EQ(kube::TextAt(JobObject(kJob), {"metadata", "annotations", "others/count"}).empty(), false);
  EXPECT_EQ(cluster_.supervisor().Wait(absl::ZeroDuration()), -1) << "nobody else has led";
  EXPECT_EQ(Status().restarts(), 0);
  FinishJob(kJob);
}

// The server throttles, and cuts connections before and after what was asked for is done.
TEST_F(KubernetesFaultTest, AnswersAreLost) {
  ASSERT_NO_FATAL_FAILURE(StartJob(kJob, "in-place", kOne));
  for (const auto& nodes : {kTwo, kOne, kOther}) {
    kube::Json faults = kube::Json::array();
    for (const char* what : {"patch adaptdljobs/status", "create pods", "delete pods", "patch pods"}) {
      const std::string verb(what, std::string(what).find(' '));
      const std::string resource = std::string(what).substr(verb.size() + 1);
      faults.push_back({{"verb", verb}, {"resource", resource}, {"cut", "after"}});
      faults.push_back({{"verb", verb}, {"resource", resource}, {"status", 429}, {"retryAfter", 1}});
      faults.push_back({{"verb", verb}, {"resource", resource}, {"cut", "before"}});
    }
    Control("POST", "faults", faults);
    ASSERT_NO_FATAL_FAILURE(Rescale(kJob, nodes));
  }
  Control("POST", "faults", kube::Json::array());
  EXPECT_EQ(cluster_.supervisor().Wait(absl::ZeroDuration()), -1) << "nobody else has led";
  EXPECT_EQ(Status().restarts(), 0);
  FinishJob(kJob);
}

TEST_F(KubernetesFaultTest, AnEvictedPodIsReplaced) {
  ASSERT_NO_FATAL_FAILURE(StartJob(kJob, "in-place", kTwo));
  const int64_t before = GroupOf(kJob);
  kubelet_.Evict("default", PodOn(kJob, "node-1"));
  ASSERT_NO_FATAL_FAILURE(AwaitGroup(kJob, kTwo, before));
  EXPECT_EQ(Status().failures(), 0) << "that is none of the job's own";
  FinishJob(kJob);
}

class ShortGraceTest : public KubernetesFaultTest {
 protected:
  ShortGraceTest() : KubernetesFaultTest(/*supervisors=*/1, /*node_grace=*/absl::Seconds(3)) {}
};

TEST_F(ShortGraceTest, AJobGoesOnWithoutANodeThatIsLost) {
  ASSERT_NO_FATAL_FAILURE(StartJob(kJob, "in-place", kTwo));
  kubelet_.Crash("node-1");
  const auto lost = cluster_.WaitForNode(
      "node-1", [](const v1::Node& node) { return node.status().phase() == v1::NODE_PHASE_LOST; }, kPatience);
  ASSERT_TRUE(lost.ok()) << lost.status();
  AwaitSteps(kJob);
  const std::vector<std::string> nodes = {"node-0", "node-2"};
  ASSERT_NO_FATAL_FAILURE(Decide(kJob, nodes));
  ASSERT_TRUE(
      Await([&] { return Status().phase() == v1::JOB_PHASE_RUNNING && !PodOn(kJob, "node-2").empty(); }));
  AwaitSteps(kJob);
  EXPECT_EQ(Status().failures(), 0);
  // What ran on it is let go when the node is heard of again, or taken away.
  kubelet_.RemoveNode("node-1");
  FinishJob(kJob);
}

}  // namespace
}  // namespace adaptdl::integration
