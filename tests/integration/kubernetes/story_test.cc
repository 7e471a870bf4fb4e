// Two jobs on a cluster of Kubernetes, one submitted over the API and one as an object: they share its nodes, change
// their replicas while they train, and learn what they are to learn.

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/kube/client/client.h"
#include "libs/kubejobs/names.h"
#include "tests/integration/test_cluster.h"
#include "tests/kube/double.h"
#include "tests/kube/yaml.h"

namespace adaptdl::integration {
namespace {

using kube::Json;

constexpr absl::Duration kPatience = absl::Minutes(4);
const kube::ResourceType kJobs = {kubejobs::kGroup, kubejobs::kVersion, kubejobs::kJobPlural,
                                  kubejobs::kJobKind};

class NoCredentials final : public kube::CredentialSource {
 public:
  absl::StatusOr<kube::Credentials> Get(const std::stop_token& /*stop*/) override {
    return kube::Credentials();
  }
  void Refused(const kube::Credentials& /*credentials*/) override {}
};

class KubernetesStoryTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!kubelet_.runs()) GTEST_SKIP() << "no containers may run here: be root with CAP_SYS_ADMIN";
    const kube::ResourceType crds = {"apiextensions.k8s.io", "v1", "customresourcedefinitions",
                                     "CustomResourceDefinition", false};
    for (const char* name : {"adaptdljob", "adaptdlquota"}) {
      const auto made = client_.Create(kube::Collection(crds), kube::ReadCrd(name), by_);
      ASSERT_TRUE(made.ok()) << made.status();
    }
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
  v1::Job Mnist(const std::string& name) const {
    v1::Job job = cluster_.MnistJob(name, {"--epochs", "4"});
    job.mutable_spec()->mutable_template_()->set_image("train");
    job.mutable_spec()->mutable_template_()->mutable_resources()->set_cpu_millis(1000);
    return job;
  }
  Json MnistObject(const std::string& name) const {
    const v1::Job job = Mnist(name);
    Json container = {{"name", "main"}, {"image", "train"}, {"resources", {{"requests", {{"cpu", "1"}}}}}};
    for (const std::string& word : job.spec().template_().command()) container["command"].push_back(word);
    for (const std::string& word : job.spec().template_().args()) container["args"].push_back(word);
    return {{"apiVersion", kubejobs::kApiVersion},
            {"kind", kubejobs::kJobKind},
            {"metadata", {{"name", name}, {"namespace", "default"}}},
            {"spec", {{"maxReplicas", 2}, {"template", {{"spec", {{"containers", {container}}}}}}}}};
  }
  Json StatusOf(const std::string& name) {
    const auto object = client_.Get(kube::ObjectOf(kJobs, {"default", name}));
    return object.ok() ? kube::At(*object, {"status"}) : Json();
  }

  // An object becomes a job a moment after it is there.
  void AwaitKnown(const std::string& name) {
    for (const absl::Time end = absl::Now() + kPatience; !cluster_.GetJob(name).ok();
         absl::SleepFor(absl::Milliseconds(20))) {
      ASSERT_LT(absl::Now(), end) << name;
    }
  }

  kube::ApiServerDouble api_;
  kube::KubeletDouble kubelet_{api_.url(), {.nodes = Nodes(), .images = R"({"train": {}})"}};
  std::unique_ptr<kube::Session> session_ =
      kube::Session::Create({.server = api_.url(), .credentials = std::make_unique<NoCredentials>()}).value();
  kube::Client client_{session_.get()};
  const kube::ChangeOptions by_ = {.field_manager = "test"};
  TestCluster cluster_{{.workers = 0, .kubernetes = api_.url()}};
};

TEST_F(KubernetesStoryTest, JobsShareTheClusterAndLearn) {
  ASSERT_TRUE(cluster_.WaitForNodes(2, kPatience).ok());
  const auto made = client_.Create(kube::Collection(kJobs, "default"), MnistObject("applied"), by_);
  ASSERT_TRUE(made.ok()) << made.status();
  AwaitKnown("applied");
  const auto alone = cluster_.WaitForJob("applied", RunningWith(1), kPatience);
  ASSERT_TRUE(alone.ok()) << alone.status();
  const auto grown = cluster_.WaitForJob("applied", RunningWith(2), kPatience);
  ASSERT_TRUE(grown.ok()) << grown.status();
  const auto submitted = cluster_.Submit(Mnist("submitted"));
  ASSERT_TRUE(submitted.ok()) << submitted.status();
  for (const char* name : {"applied", "submitted"}) {
    const auto job = cluster_.WaitForJob(name, Finished, kPatience);
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_EQ(job->status().phase(), v1::JOB_PHASE_SUCCEEDED) << job->status().ShortDebugString();
    EXPECT_EQ(kube::TextAt(StatusOf(name), {"phase"}), "Succeeded");
    EXPECT_EQ(job->status().restarts(), 0) << "what changes its replicas changes them in place";
  }
  EXPECT_GE(cluster_.GetJob("applied")->status().rescales(), 2)
      << "to two replicas, and back for the other job";
}

}  // namespace
}  // namespace adaptdl::integration
