// Two jobs on a cluster of Kubernetes, one submitted over the API and one as an object: they share its nodes, change
// their replicas while they train, and learn what they are to learn.

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/kube/client/client.h"
#include "libs/kubejobs/names.h"
#include "tests/integration/kubernetes/kubernetes_test.h"
#include "tests/integration/test_cluster.h"
#include "tests/kube/double.h"

namespace adaptdl::integration {
namespace {

using kube::Json;

constexpr absl::Duration kStoryPatience = absl::Minutes(8);

class KubernetesStoryTest : public KubernetesTest {
 protected:
  void SetUp() override {
    if (!kubelet_.runs()) GTEST_SKIP() << "no containers may run here: be root with CAP_SYS_ADMIN";
    const absl::Status started = cluster_.Start();
    ASSERT_TRUE(started.ok()) << started;
  }

  static std::string Nodes() {
    const Json resources = {{"cpu", "1"}, {"memory", "4Gi"}, {"pods", "10"}};
    Json nodes = Json::array();
    for (const char* name : {"node-0", "node-1"})
      nodes.push_back({{"name", name}, {"allocatable", resources}});
    return kube::Dump(nodes);
  }

  // Of the program that trains on digits.
  v1::Job Mnist(const std::string& name, int epochs) const {
    v1::Job job = cluster_.MnistJob(name, {"--epochs", absl::StrCat(epochs)});
    job.mutable_spec()->mutable_template_()->set_image("train");
    job.mutable_spec()->mutable_template_()->mutable_resources()->set_cpu_millis(1000);
    return job;
  }
  // Says soon how fast it is, so that it grows long before its end.
  Json MnistObject(const std::string& name, int epochs) const {
    const v1::Job job = Mnist(name, epochs);
    Json container = {{"name", "main"}, {"image", "train"}, {"resources", {{"requests", {{"cpu", "1"}}}}}};
    container["env"].push_back({{"name", "ADAPTDL_HINTS_PERIOD_SECONDS"}, {"value", "1"}});
    for (const std::string& word : job.spec().template_().command()) container["command"].push_back(word);
    for (const std::string& word : job.spec().template_().args()) container["args"].push_back(word);
    return {{"apiVersion", kubejobs::kApiVersion},
            {"kind", kubejobs::kJobKind},
            {"metadata", {{"name", name}, {"namespace", "default"}}},
            {"spec", {{"maxReplicas", 2}, {"template", {{"spec", {{"containers", {container}}}}}}}}};
  }
  Json StatusOf(const std::string& name) {
    const auto object = client_.Get(kube::ObjectOf(AdaptDLJobs(), {"default", name}));
    return object.ok() ? kube::At(*object, {"status"}) : Json();
  }

  // Of all replicas that the job has had.
  std::string Logs(const std::string& job) {
    const auto pods = client_.ListAll(kube::Collection(kube::Pods(), "default"),
                                      {.labels = absl::StrCat(kubejobs::kJobLabel, "=", job)});
    EXPECT_TRUE(pods.ok() && !pods->empty()) << pods.status();
    std::string logs;
    for (const Json& pod : *pods) {
      const auto log = session_->Call({.target = kube::ObjectOf(kube::Pods(), kube::KeyOf(pod)).Sub("log")});
      EXPECT_TRUE(log.ok()) << log.status() << "\n" << pod.dump(1);
      if (log.ok()) absl::StrAppend(&logs, *log);
    }
    return logs;
  }

  kube::KubeletDouble kubelet_{api_.url(), {.nodes = Nodes(), .images = R"({"train": {}})"}};
  TestCluster cluster_{{.workers = 0, .kubernetes = api_.url()}};
};

TEST_F(KubernetesStoryTest, JobsShareTheClusterAndLearn) {
  ASSERT_TRUE(cluster_.WaitForNodes(2, kStoryPatience).ok());
  const auto made =
      client_.Create(kube::Collection(AdaptDLJobs(), "default"), MnistObject("applied", 20), by_);
  ASSERT_TRUE(made.ok()) << made.status();
  const auto alone = cluster_.WaitForJob("applied", RunningWith(1), kStoryPatience);
  ASSERT_TRUE(alone.ok()) << alone.status();
  const auto grown = cluster_.WaitForJob("applied", RunningWith(2), kStoryPatience);
  ASSERT_TRUE(grown.ok()) << grown.status();
  const auto submitted = cluster_.Submit(Mnist("submitted", 2));
  ASSERT_TRUE(submitted.ok()) << submitted.status();
  for (const char* name : {"applied", "submitted"}) {
    const auto job = cluster_.WaitForJob(name, Finished, kStoryPatience);
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_EQ(job->status().phase(), v1::JOB_PHASE_SUCCEEDED) << job->status().ShortDebugString();
    EXPECT_EQ(kube::TextAt(StatusOf(name), {"phase"}), "Succeeded");
    EXPECT_GE(LastTestAccuracy(Logs(name)), 90) << Logs(name);
    EXPECT_EQ(job->status().restarts(), 0) << "what changes its replicas changes them in place";
  }
  EXPECT_GE(cluster_.GetJob("applied")->status().rescales(), 2)
      << "to two replicas, and back for the other job";
}

}  // namespace
}  // namespace adaptdl::integration
