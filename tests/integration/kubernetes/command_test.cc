// The command against a cluster of Kubernetes: it reaches the supervisor that leads through the API server, as somebody with a user's
// rights, and leaves nothing behind.

#include <signal.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/http/http_client.h"
#include "libs/kubejobs/names.h"
#include "tests/integration/kubernetes/command_cluster.h"
#include "tests/integration/process.h"

namespace adaptdl::integration {
namespace {

using kube::Json;
using kube::TextAt;
using ::testing::HasSubstr;

const kube::ResourceType kJobs = {kubejobs::kGroup, kubejobs::kVersion, kubejobs::kJobPlural,
                                  kubejobs::kJobKind};
const kube::ResourceType kClaims = {"", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"};

// Fits nowhere, so that its pods come into nobody's way.
constexpr char kJobFile[] = R"(apiVersion: adaptdl.petuum.com/v1
kind: AdaptDLJob
metadata: {generateName: train-}
spec:
  maxReplicas: 2
  template:
    spec:
      containers:
      - {name: main, image: "busybox:1.36", args: [old], resources: {requests: {cpu: 4k}}}
)";

class KubernetesCommandTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!cluster_.runs()) GTEST_SKIP() << "no containers may run here, or there is no kubectl";
    cluster_.MakeObjects();
  }

  // The name in "job team/NAME submitted".
  static std::string NameIn(const std::string& out) {
    const size_t begin = out.find('/') + 1;
    return out.substr(begin, out.find(' ', begin) - begin);
  }
  Json JobOf(const std::string& name) { return cluster_.Get(kube::ObjectOf(kJobs, {kTeam, name})); }

  // Of the command, in the background.
  Process Start(const std::vector<std::string>& arguments, const std::string& log) {
    std::vector<std::string> command = {ADAPTDL_BINARY_DIR "/bin/adaptdl"};
    for (const std::string& flag : cluster_.Flags()) command.push_back(flag);
    command.insert(command.end(), arguments.begin(), arguments.end());
    return Process::Start(command, log);
  }
  size_t CopyPods() {
    const auto pods = cluster_.client().ListAll(kube::Collection(kube::Pods(), kTeam),
                                                {.labels = "app.kubernetes.io/managed-by=adaptdl-cp"});
    EXPECT_TRUE(pods.ok()) << pods.status();
    return pods.ok() ? pods->size() : 0;
  }

  CommandCluster cluster_;
};

TEST_F(KubernetesCommandTest, JobsAreSubmittedSeenAndCancelledAlsoUnderTheNextLeader) {
  cluster_.StartSupervisors();
  cluster_.folder().Write("job/adaptdljob.yaml", kJobFile);
  const auto submitted = cluster_.Run({"submit", "job", "--", "--epochs", "3"});
  ASSERT_EQ(submitted.code, 0) << submitted.err;
  const std::string name = NameIn(submitted.out);
  EXPECT_THAT(name, ::testing::StartsWith("train-")) << submitted.out;
  const Json job = JobOf(name);
  EXPECT_EQ(kube::At(job, {"spec", "template", "spec", "containers"})[0]["args"], Json({"--epochs", "3"}));

  // The Lease says who leads, and that one is taken away.
  ASSERT_TRUE(Eventually([&] {
    return cluster_.Run({"describe", name}).code == 0;
  })) << cluster_.Run({"describe", name}).err;
  const auto leases = cluster_.client().ListAll(kube::Collection(kube::Leases(), "adaptdl"));
  ASSERT_TRUE(leases.ok() && leases->size() == 1) << leases.status();
  const std::string leader = TextAt(leases->front(), {"spec", "holderIdentity"});
  const std::string pod = leader.find("adaptdl-supervisor-1") != std::string::npos ? "adaptdl-supervisor-1"
                                                                                   : "adaptdl-supervisor-0";
  ASSERT_TRUE(
      cluster_.client()
          .Delete(kube::ObjectOf(kube::Pods(), {"adaptdl", pod}), {.grace_period = absl::ZeroDuration()})
          .ok());
  const auto listed = cluster_.Run({"ls", "--call-timeout", "60s"});
  EXPECT_EQ(listed.code, 0) << listed.err;
  EXPECT_THAT(listed.out, HasSubstr(name));

  const auto cancelled = cluster_.Run({"cancel", name});
  EXPECT_EQ(cancelled.code, 0) << cancelled.err;
  const auto waited = cluster_.Run({"wait", name});
  EXPECT_EQ(waited.code, 4) << waited.err;
  // Which ann's roles do not give her.
  const auto nodes = cluster_.Run({"nodes"});
  EXPECT_EQ(nodes.code, 1);
  EXPECT_THAT(nodes.err, HasSubstr("may not list"));
}

TEST_F(KubernetesCommandTest, WhoSubmitsMayWait) {
  cluster_.StartSupervisors();
  cluster_.folder().Write("job.yaml", kJobFile);
  const std::string log = cluster_.folder().path() + "/submit.log";
  Process submit = Start({"submit", cluster_.folder().path() + "/job.yaml", "-n", "awaited", "--wait"}, log);
  std::string name;
  ASSERT_TRUE(Eventually([&] {
    const std::string said = cluster_.folder().Read("submit.log");
    name = said.find(" submitted") == std::string::npos ? "" : NameIn(said);
    return !name.empty();
  })) << cluster_.folder().Read("submit.log");
  EXPECT_EQ(cluster_.Run({"cancel", name, "--call-timeout", "60s"}).code, 0);
  EXPECT_EQ(submit.Wait(absl::Minutes(1)), 4) << cluster_.folder().Read("submit.log");
}

TEST_F(KubernetesCommandTest, WithoutASupervisorItSaysWhatIsMissing) {
  const auto listed = cluster_.Run({"ls"});
  EXPECT_EQ(listed.code, 1);
  EXPECT_THAT(listed.err, HasSubstr("is AdaptDL installed in this cluster?"));
}

TEST_F(KubernetesCommandTest, WithoutKubectlItSaysHowToGetIt) {
  cluster_.StartSupervisors();
  const auto listed = cluster_.Run({"ls"}, {"PATH=/nowhere"});
  EXPECT_EQ(listed.code, 1);
  EXPECT_THAT(listed.err, HasSubstr("kubectl is not in PATH: install it"));
}

TEST_F(KubernetesCommandTest, AnotherAuthorityIsNotBelieved) {
  cluster_.StartSupervisors();
  // The environment says what the flags do.
  const auto believed =
      cli::RunProgram(cluster_.folder().path(), {"ls", "--call-timeout", "60s"},
                      {"ADAPTDL_KUBERNETES=1", "KUBECONFIG=" + cluster_.folder().path() + "/ann.kubeconfig"});
  ASSERT_EQ(believed.code, 0) << believed.err;
  const kube::Target map = kube::ObjectOf({"", "v1", "configmaps", "ConfigMap"}, {"adaptdl", "adaptdl-ca"});
  const auto other = cluster_.OtherAuthority();
  ASSERT_TRUE(
      cluster_.client().MergePatch(map, {{"data", {{"ca.crt", other}}}}, {.field_manager = "test"}).ok());
  const auto listed = cluster_.Run({"ls", "--call-timeout", "2s"});
  EXPECT_EQ(listed.code, 1) << listed.out;
}

TEST_F(KubernetesCommandTest, TensorboardsAreMadeShownAndDeleted) {
  const auto created = cluster_.Run({"tensorboard", "create", "runs", "--size", "2Gi"});
  ASSERT_EQ(created.code, 0) << created.err;
  const Json claim = cluster_.Get(kube::ObjectOf(kClaims, {kTeam, "adaptdl-tensorboard-runs"}));
  EXPECT_EQ(kube::At(claim, {"spec", "accessModes"}), Json({"ReadWriteMany"}));
  const auto listed = cluster_.Run({"tensorboard", "list"});
  EXPECT_THAT(listed.out, HasSubstr("runs   -          2Gi    0/1")) << listed.err;
  EXPECT_EQ(cluster_.Run({"tensorboard", "create", "runs"}).code, 1);

  // What a Deployment's controller would make, with a server in TensorBoard's place.
  cluster_.folder().Write("site/index.html", "a curve");
  const Json server = {
      {"name", "main"},
      {"image", "busybox:1.36"},
      {"env",
       Json::array({{{"name", "IP"}, {"valueFrom", {{"fieldRef", {{"fieldPath", "status.podIP"}}}}}}})},
      {"ports", Json::array({{{"containerPort", 6006}}})},
      {"command",
       {"/usr/bin/python3", "-m", "http.server", "--bind", "$(IP)", "--directory",
        cluster_.folder().path() + "/site", "6006"}}};
  cluster_.Make(kube::Pods(), kTeam,
                {{"metadata", {{"name", "board"}, {"labels", {{kubejobs::kTensorboardLabel, "runs"}}}}},
                 {"spec", {{"restartPolicy", "Never"}, {"containers", Json::array({server})}}}});
  cluster_.WaitForPhase(kTeam, "board", "Running");

  const std::string log = cluster_.folder().path() + "/proxy.log";
  Process proxy = Start({"tensorboard", "proxy", "runs"}, log);
  std::string url;
  ASSERT_TRUE(Eventually([&] {
    std::ifstream(log) >> url;
    return url.starts_with("http://");
  }));
  const HttpClient http;
  const auto get = [&] { return HttpClient().Send({.url = url + "index.html"}); };
  ASSERT_TRUE(Eventually([&] { return get().ok(); }));
  EXPECT_EQ(get()->body, "a curve");
  // kubectl does not outlive it, whatever it dies of.
  proxy.Kill();
  EXPECT_TRUE(Eventually([&] { return !get().ok(); }));

  EXPECT_EQ(cluster_.Run({"tensorboard", "delete", "runs"}).code, 0);
  EXPECT_TRUE(Eventually([&] {
    return cluster_.Get(kube::ObjectOf(kClaims, {kTeam, "adaptdl-tensorboard-runs"})).is_null();
  })) << "the claim goes with it";
}

class KubernetesCopyTest : public KubernetesCommandTest {
 protected:
  void SetUp() override {
    KubernetesCommandTest::SetUp();
    if (IsSkipped()) return;
    cluster_.Make(kClaims, kTeam,
                  {{"metadata", {{"name", "results"}}},
                   {"spec",
                    {{"accessModes", {"ReadWriteMany"}},
                     {"storageClassName", "shared"},
                     {"resources", {{"requests", {{"storage", "1Gi"}}}}}}}});
    const Json mounts = Json::array({{{"name", "v"}, {"mountPath", "/adaptdl/share"}}});
    const Json volumes =
        Json::array({{{"name", "v"}, {"persistentVolumeClaim", {{"claimName", "results"}}}}});
    const Json container = {{"name", "main"}, {"image", "busybox:1.36"}, {"volumeMounts", mounts}};
    cluster_.Make(
        kJobs, kTeam,
        {{"metadata", {{"name", "digits"}}},
         {"spec",
          {{"template", {{"spec", {{"containers", Json::array({container})}, {"volumes", volumes}}}}}}}});
    Json writer = container;
    writer["command"] = {"sh", "-c", "mkdir /adaptdl/share/run; echo 97 > /adaptdl/share/run/accuracy"};
    cluster_.Make(
        kube::Pods(), kTeam,
        {{"metadata", {{"name", "writer"}}},
         {"spec",
          {{"restartPolicy", "Never"}, {"containers", Json::array({writer})}, {"volumes", volumes}}}});
    cluster_.WaitForPhase(kTeam, "writer", "Succeeded");
  }
};

TEST_F(KubernetesCopyTest, FilesOfAJobWithoutPods) {
  const auto file = cluster_.Run({"cp", "digits:share/run/accuracy", "accuracy"});
  ASSERT_EQ(file.code, 0) << file.err;
  EXPECT_EQ(cluster_.folder().Read("accuracy"), "97\n");
  const auto whole = cluster_.Run({"cp", "digits:/adaptdl/share/run", "."});
  ASSERT_EQ(whole.code, 0) << whole.err;
  EXPECT_EQ(cluster_.folder().Read("run/accuracy"), "97\n");
  const auto missing = cluster_.Run({"cp", "digits:share/nothing", "."});
  EXPECT_EQ(missing.code, 1);
  const auto elsewhere = cluster_.Run({"cp", "digits:/etc/passwd", "."});
  EXPECT_THAT(elsewhere.err, HasSubstr("is on none of the job's claims, which are at /adaptdl/share"));
  EXPECT_EQ(CopyPods(), 0u);
  for (const auto& entry : std::filesystem::directory_iterator(cluster_.folder().path())) {
    EXPECT_THAT(entry.path().filename().string(), ::testing::Not(::testing::StartsWith(".adaptdl-cp")));
  }
}

TEST_F(KubernetesCopyTest, AnInterruptedCopyLeavesNoPod) {
  const std::string log = cluster_.folder().path() + "/cp.log";
  Process copy = Start({"cp", "digits:share/run", ".", "--helper-image", "of-nowhere"}, log);
  ASSERT_TRUE(Eventually([&] { return CopyPods() == 1; }));
  copy.Signal(SIGINT);
  EXPECT_EQ(copy.Wait(absl::Minutes(1)), 128 + SIGINT);
  EXPECT_EQ(CopyPods(), 0u);
}

}  // namespace
}  // namespace adaptdl::integration
