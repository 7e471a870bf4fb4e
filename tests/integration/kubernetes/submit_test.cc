// A folder becomes a job: its image is built, pushed to the cluster's registry and named by its digest, and can be pulled from there.

#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/kubejobs/names.h"
#include "tests/integration/kubernetes/command_cluster.h"
#include "tests/integration/process.h"

namespace adaptdl::integration {
namespace {

using kube::At;
using kube::Json;
using kube::TextAt;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const kube::ResourceType kSubmittedJobs = {kubejobs::kGroup, kubejobs::kVersion, kubejobs::kJobPlural,
                                           kubejobs::kJobKind};
const kube::ResourceType kVolumeClaims = {"", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"};
const kube::ResourceType kServices = {"", "v1", "services", "Service"};
constexpr char kBuildah[] = "/usr/bin/buildah";
constexpr char kRegistry[] = "/usr/bin/docker-registry";

// As AdaptDL's own examples are written.
constexpr char kSubmittedJob[] = R"(apiVersion: adaptdl.petuum.com/v1
kind: AdaptDLJob
metadata: {generateName: mnist-}
spec:
  template:
    spec:
      containers:
      - name: main
        env: [{name: PYTHONUNBUFFERED, value: "true"}]
)";

class KubernetesSubmitTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!cluster_.runs()) GTEST_SKIP() << "no containers may run here, or there is no kubectl";
    if (access(kBuildah, X_OK) != 0 || access(kRegistry, X_OK) != 0) {
      GTEST_SKIP() << "buildah and docker-registry are needed (scripts/packages.txt)";
    }
    cluster_.MakeObjects();
    const cli::TemporaryFolder& folder = cluster_.folder();
    folder.Write("project/adaptdljob.yaml", kSubmittedJob);
    folder.Write("project/Dockerfile", "FROM scratch\nCOPY hello /hello\nENTRYPOINT [\"/hello\"]\n");
    folder.Write("project/hello", "what the image holds");
    // Builds without a daemon, privileges or a network; nothing outside of the test's folder.
    environment_ = {
        "BUILDAH_ISOLATION=chroot",
        "CONTAINERS_STORAGE_CONF=" +
            folder.Write("storage.conf",
                         absl::StrCat("[storage]\ndriver = \"vfs\"\ngraphroot = \"", folder.path(),
                                      "/images\"\nrunroot = \"", folder.path(), "/run\"\n"))};
  }

  // As the chart has it, with a node port.
  void StartRegistry() {
    const std::string config = cluster_.folder().Write(
        "registry.yml",
        "version: 0.1\nstorage: {filesystem: {rootdirectory: /root/registry}}\nhttp: {addr: x}\n");
    const Json container = {
        {"name", "registry"},
        {"image", "busybox:1.36"},
        {"env", Json::array({{{"name", "IP"}, {"valueFrom", {{"fieldRef", {{"fieldPath", "status.podIP"}}}}}},
                             {{"name", "REGISTRY_HTTP_ADDR"}, {"value", "$(IP):5000"}}})},
        {"ports", Json::array({{{"containerPort", 5000}}})},
        {"command", {kRegistry, "serve", config}}};
    cluster_.Make(kube::Pods(), "adaptdl",
                  {{"metadata", {{"name", "registry"}, {"labels", {{"app", "registry"}}}}},
                   {"spec", {{"restartPolicy", "Never"}, {"containers", Json::array({container})}}}});
    cluster_.Make(
        kServices, "adaptdl",
        {{"metadata", {{"name", "adaptdl-registry"}}},
         {"spec",
          {{"type", "NodePort"},
           {"selector", {{"app", "registry"}}},
           {"ports", Json::array({{{"port", 5000}, {"targetPort", 5000}, {"nodePort", 32000}}})}}}});
    cluster_.WaitForPhase("adaptdl", "registry", "Running");
    ASSERT_TRUE(Eventually([&] { return Log("registry").find("listening on") != std::string::npos; }));
  }
  std::string Log(const std::string& pod) {
    return cluster_.client()
        .session()
        .Call({.target = kube::ObjectOf(kube::Pods(), {"adaptdl", pod}).Sub("log")})
        .value_or("");
  }
  std::string RegistryAddress() {
    const Json pod = cluster_.Get(kube::ObjectOf(kube::Pods(), {"adaptdl", "registry"}));
    return TextAt(pod, {"status", "podIP"}) + ":5000";
  }

  Json JobIn(const std::string& out) {
    const size_t begin = out.find('/') + 1;
    return cluster_.Get(
        kube::ObjectOf(kSubmittedJobs, {kTeam, out.substr(begin, out.find(' ', begin) - begin)}));
  }
  static Json Container(const Json& job) { return At(job, {"spec", "template", "spec", "containers"})[0]; }

  // The exit code of buildah, with the test's storage.
  int Buildah(const std::vector<std::string>& arguments) {
    std::vector<std::string> command = {"/usr/bin/env"};
    command.insert(command.end(), environment_.begin(), environment_.end());
    command.push_back(kBuildah);
    command.insert(command.end(), arguments.begin(), arguments.end());
    return Process::Start(command, cluster_.folder().path() + "/buildah.log").Wait(absl::Minutes(1));
  }

  CommandCluster cluster_;
  std::vector<std::string> environment_;
};

TEST_F(KubernetesSubmitTest, AFolderBecomesAnImageInTheClustersRegistry) {
  ASSERT_NO_FATAL_FAILURE(StartRegistry());
  const auto submitted = cluster_.Run(
      {"submit", "project", "-n", "run", "--image-tool", kBuildah, "--", "--epochs", "2"}, environment_);
  ASSERT_EQ(submitted.code, 0) << submitted.err;
  const Json job = JobIn(submitted.out);
  EXPECT_THAT(kube::KeyOf(job).name, StartsWith("run-"));
  EXPECT_EQ(Container(job)["args"], Json({"--epochs", "2"}));
  EXPECT_EQ(Container(job)["env"][0]["name"], "PYTHONUNBUFFERED") << "the rest is as the file has it";
  const std::string image = TextAt(Container(job), {"image"});
  ASSERT_THAT(image, StartsWith("localhost:32000/adaptdl-submit@sha256:"));

  ASSERT_EQ(Buildah({"rmi", "--all", "--force"}), 0);
  const std::string pulled = RegistryAddress() + image.substr(image.find('/'));
  ASSERT_EQ(Buildah({"pull", "--tls-verify=false", pulled}), 0) << cluster_.folder().Read("buildah.log");
  const std::string copy = cluster_.folder().path() + "/pulled";
  ASSERT_EQ(Buildah({"push", pulled, "dir:" + copy}), 0) << cluster_.folder().Read("buildah.log");
  EXPECT_TRUE(std::filesystem::exists(copy + "/manifest.json"));
}

TEST_F(KubernetesSubmitTest, AnotherRepositoryWithASecretToPullFromIt) {
  ASSERT_NO_FATAL_FAILURE(StartRegistry());
  const std::string registries = cluster_.folder().Write(
      "registries.conf",
      absl::StrCat("[[registry]]\nlocation = \"", RegistryAddress(), "\"\ninsecure = true\n"));
  std::vector<std::string> environment = environment_;
  environment.push_back("CONTAINERS_REGISTRIES_CONF=" + registries);
  environment.push_back(absl::StrCat("ADAPTDL_SUBMIT_REPO=", RegistryAddress(), "/me/train"));
  environment.push_back("ADAPTDL_SUBMIT_REPO_CREDS=puller");
  const auto submitted = cluster_.Run({"submit", "project", "--image-tool", kBuildah}, environment);
  ASSERT_EQ(submitted.code, 0) << submitted.err;
  const Json job = JobIn(submitted.out);
  EXPECT_THAT(TextAt(Container(job), {"image"}), StartsWith(RegistryAddress() + "/me/train@sha256:"));
  EXPECT_EQ(At(job, {"spec", "template", "spec", "imagePullSecrets"}), Json::array({{{"name", "puller"}}}));
}

TEST_F(KubernetesSubmitTest, WithoutARegistryItSaysWhatToSet) {
  const auto submitted = cluster_.Run({"submit", "project", "--image-tool", kBuildah}, environment_);
  EXPECT_EQ(submitted.code, 1);
  EXPECT_THAT(submitted.err, HasSubstr("ADAPTDL_SUBMIT_REPO names another repository"));
}

TEST_F(KubernetesSubmitTest, ClaimsForCheckpointsAndTensorboard) {
  const std::string file = cluster_.folder().Write("job.yaml", kSubmittedJob);
  const auto refused = cluster_.Run({"submit", file, "--tensorboard", "runs"});
  EXPECT_THAT(refused.err, HasSubstr("\"adaptdl tensorboard create runs\" makes it"));
  ASSERT_EQ(cluster_.Run({"tensorboard", "create", "runs"}).code, 0);
  const auto submitted = cluster_.Run({"submit", file, "--tensorboard", "runs", "--checkpoint-storage-size",
                                       "3Gi", "--checkpoint-storage-class", "shared"});
  ASSERT_EQ(submitted.code, 0) << submitted.err;
  const Json job = JobIn(submitted.out);
  const Json& volumes = At(job, {"spec", "template", "spec", "volumes"});
  ASSERT_EQ(volumes.size(), 2u);
  EXPECT_EQ(TextAt(volumes[0], {"persistentVolumeClaim", "claimName"}), "adaptdl-tensorboard-runs");
  const Json claim = cluster_.Get(
      kube::ObjectOf(kVolumeClaims, {kTeam, TextAt(volumes[1], {"persistentVolumeClaim", "claimName"})}));
  EXPECT_EQ(TextAt(claim, {"spec", "resources", "requests", "storage"}), "3Gi");
  EXPECT_EQ(TextAt(claim, {"spec", "storageClassName"}), "shared");
  EXPECT_EQ(At(claim, {"metadata", "ownerReferences"})[0]["uid"], kube::UidOf(job));
  const std::string variables = Container(job)["env"].dump();
  for (const char* name : {"ADAPTDL_CHECKPOINT_PATH", "ADAPTDL_SHARE_PATH", "ADAPTDL_TENSORBOARD_LOGDIR"}) {
    EXPECT_THAT(variables, HasSubstr(name));
  }
}

TEST_F(KubernetesSubmitTest, WhatIsNoJobIsRefused) {
  const std::string file =
      cluster_.folder().Write("map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n");
  const auto submitted = cluster_.Run({"submit", file});
  EXPECT_EQ(submitted.code, 1);
  EXPECT_THAT(submitted.err, HasSubstr("must be one object of kind AdaptDLJob"));
}

}  // namespace
}  // namespace adaptdl::integration
