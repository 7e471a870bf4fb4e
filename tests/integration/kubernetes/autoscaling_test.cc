// The nodes of a cluster come and go with its jobs: from none at all to what a job makes good use of, and back to none,
// without ever more nodes than that.

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/kube/client/client.h"
#include "libs/kubejobs/names.h"
#include "tests/integration/kubernetes/cloud.h"
#include "tests/integration/kubernetes/kubernetes_test.h"
#include "tests/integration/test_cluster.h"
#include "tests/kube/double.h"

namespace adaptdl::integration {
namespace {

using kube::Json;

constexpr absl::Duration kScalingPatience = absl::Minutes(8);
const kube::ResourceType kPriorityClasses = {"scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass",
                                             false};

// A node that the cloud has not made, as those have on which a cluster's own services run: too small for any job.
constexpr char kSystemNode[] =
    R"([{"name": "system", "allocatable": {"cpu": "500m", "memory": "4Gi", "pods": "10"}}])";
constexpr char kImages[] = R"({"train": {}, "pause": {"entrypoint": ["/bin/sleep", "infinity"]}})";

class KubernetesAutoscalingTest : public KubernetesTest {
 protected:
  void SetUp() override {
    if (!kubelet_.runs()) GTEST_SKIP() << "no containers may run here: be root with CAP_SYS_ADMIN";
    const auto made = client_.Create(
        kube::Collection(kPriorityClasses),
        {{"metadata", {{"name", "adaptdl-placeholder"}}}, {"value", -10}, {"preemptionPolicy", "Never"}},
        by_);
    ASSERT_TRUE(made.ok()) << made.status();
    const absl::Status started = cluster_.Start();
    ASSERT_TRUE(started.ok()) << started;
  }

  static std::vector<std::string> Flags() {
    // A node is asked for if it brings anything at all, however busy the machine of the test is.
    return {"--target",
            "deadline",
            "--deadline",
            "2020-01-01T00:00:00Z",
            "--pool",
            "train",
            "--max-nodes",
            "3",
            "--cooldown",
            "5s",
            "--node-selector",
            "pool=train",
            "--own-namespace",
            "default",
            "--node-resources",
            R"({"cpu": "1", "memory": "1Gi"})",
            "--placeholder-image",
            "pause"};
  }

  // Of the program that trains on digits; says soon how fast it is.
  void Submit(const std::string& name, int max_replicas, int epochs) {
    const v1::Job job = cluster_.MnistJob(name, {"--epochs", absl::StrCat(epochs)});
    Json container = {{"name", "main"}, {"image", "train"}, {"resources", {{"requests", {{"cpu", "1"}}}}}};
    container["env"].push_back({{"name", "ADAPTDL_HINTS_PERIOD_SECONDS"}, {"value", "1"}});
    for (const std::string& word : job.spec().template_().command()) container["command"].push_back(word);
    for (const std::string& word : job.spec().template_().args()) container["args"].push_back(word);
    const Json object = {
        {"apiVersion", kubejobs::kApiVersion},
        {"kind", kubejobs::kJobKind},
        {"metadata", {{"name", name}, {"namespace", "default"}}},
        {"spec", {{"maxReplicas", max_replicas}, {"template", {{"spec", {{"containers", {container}}}}}}}}};
    const auto made = client_.Create(kube::Collection(AdaptDLJobs(), "default"), object, by_);
    ASSERT_TRUE(made.ok()) << made.status();
  }
  void ExpectSuccess(const std::string& name) {
    const auto job = cluster_.WaitForJob(name, Finished, kScalingPatience);
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_EQ(job->status().phase(), v1::JOB_PHASE_SUCCEEDED) << job->status().ShortDebugString();
    EXPECT_EQ(job->status().restarts(), 0) << "nodes come and go without a restart";
  }

  int Placeholders() {
    const auto pods = client_.ListAll(kube::Collection(kube::Pods(), "default"),
                                      {.labels = absl::StrCat(kubejobs::kPlaceholderLabel, "=true")});
    return pods.ok() ? static_cast<int>(pods->size()) : -1;
  }
  template <typename Condition>
  bool Eventually(const Condition& holds) {
    const absl::Time deadline = absl::Now() + kScalingPatience;
    while (!holds() && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(50));
    return holds();
  }

  kube::KubeletDouble kubelet_{api_.url(), {.nodes = kSystemNode, .images = kImages}};
  TestCluster cluster_{
      {.workers = 0, .autoscaler = true, .autoscaler_flags = Flags(), .kubernetes = api_.url()}};
};

TEST_F(KubernetesAutoscalingTest, FromNoNodeToWhatAJobMakesGoodUseOfAndBack) {
  // Long: nothing runs on a node either while a job that it was made for starts, on a busy machine.
  Cloud cloud({.unneeded = absl::Seconds(30)}, &kubelet_, &client_);
  Submit("first", 2, 12);
  const auto alone = cluster_.WaitForJob("first", RunningWith(1), kScalingPatience);
  ASSERT_TRUE(alone.ok()) << alone.status();
  const auto grown = cluster_.WaitForJob("first", RunningWith(2), kScalingPatience);
  ASSERT_TRUE(grown.ok()) << cloud.made() << " nodes made; " << grown.status();
  ExpectSuccess("first");
  // What has been let go is still there for a while, and used.
  Submit("second", 1, 2);
  ExpectSuccess("second");
  ASSERT_TRUE(Eventually([&] { return cloud.there() == 0; }));
  EXPECT_EQ(cloud.made(), 2) << "one to begin with, and one to grow";
  EXPECT_EQ(Placeholders(), 0);
}

}  // namespace
}  // namespace adaptdl::integration
