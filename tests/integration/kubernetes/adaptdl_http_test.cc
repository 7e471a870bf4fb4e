// Programs of AdaptDL's own Python package as pods: they know no library of ours, and the supervisor knows them by where they
// are. tests/integration/python/meet.py is the program.

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/http/http_client.h"
#include "libs/kube/client/client.h"
#include "libs/kubejobs/names.h"
#include "tests/integration/kubernetes/kubernetes_test.h"
#include "tests/integration/kubernetes/standby.h"
#include "tests/integration/test_cluster.h"
#include "tests/kube/double.h"

namespace adaptdl::integration {
namespace {

using kube::Json;
using ::testing::HasSubstr;

constexpr absl::Duration kHttpPatience = absl::Minutes(1);
constexpr char kLeads[] = "adaptdl.petuum.com/leads";

class KubernetesAdaptdlTest : public KubernetesTest {
 protected:
  void SetUp() override {
    if (!kubelet_.runs()) GTEST_SKIP() << "no containers may run here: be root with CAP_SYS_ADMIN";
    MakeSupervisorPod("leader", nullptr);
    MakeSupervisorPod("standby", "true");
    const absl::Status started = cluster_.Start();
    ASSERT_TRUE(started.ok()) << started;
    ASSERT_TRUE(cluster_.WaitForNodes(2, kHttpPatience).ok());
  }

  // As a supervisor's own pod. `leads`: its label.
  void MakeSupervisorPod(const std::string& name, const Json& leads) {
    Json pod = {{"metadata", {{"name", name}}},
                {"spec", {{"containers", {{{"name", "supervisor"}, {"image", "none"}}}}}}};
    if (leads.is_string()) pod["metadata"]["labels"][kLeads] = leads;
    ASSERT_TRUE(client_.Create(kube::Collection(kube::Pods(), "default"), pod, by_).ok());
  }
  std::string LabelOf(const std::string& pod) {
    const auto object = client_.Get(kube::ObjectOf(kube::Pods(), {"default", pod}));
    return object.ok() ? kube::TextAt(*object, {"metadata", "labels", kLeads}) : object.status().ToString();
  }

  static Json MeetObject() {
    const Json from = {{"name", "MEET_FROM"}, {"valueFrom", {{"fieldRef", {{"fieldPath", "status.podIP"}}}}}};
    const Json container = {
        {"name", "main"},
        {"image", "python"},
        {"command",
         {"/usr/bin/python3", absl::StrCat(ADAPTDL_SOURCE_DIR, "/tests/integration/python/meet.py")}},
        {"env", {from}}};
    return {{"apiVersion", kubejobs::kApiVersion},
            {"kind", kubejobs::kJobKind},
            {"metadata", {{"name", "job"}, {"namespace", "default"}}},
            {"spec", {{"maxReplicas", 2}, {"template", {{"spec", {{"containers", {container}}}}}}}}};
  }
  // The job once it has met as the group with this number.
  v1::Job WaitForMeeting(int64_t group, int replicas) {
    const auto job = cluster_.WaitForJob(
        "job",
        [=](const v1::Job& job) {
          const v1::JobStatus& status = job.status();
          int joined = 0;
          for (const v1::Replica& replica : status.replicas()) joined += replica.joined() ? 1 : 0;
          return status.phase() == v1::JOB_PHASE_RUNNING && status.group() == group && joined == replicas;
        },
        kHttpPatience);
    EXPECT_TRUE(job.ok()) << job.status();
    return job.value_or(v1::Job());
  }
  // The variable of the first container of one of the job's pods.
  std::string VariableOfPod(const std::string& name) {
    const auto pods = client_.ListAll(kube::Collection(kube::Pods(), "default"),
                                      {.labels = absl::StrCat(kubejobs::kJobLabel, "=job")});
    if (!pods.ok() || pods->empty()) return "";
    const Json& variables = kube::At(kube::At(pods->at(0), {"spec", "containers"}).at(0), {"env"});
    for (const Json& variable : variables) {
      if (kube::TextAt(variable, {"name"}) == name) return kube::TextAt(variable, {"value"});
    }
    return "";
  }

  kube::KubeletDouble kubelet_{
      api_.url(), {.nodes = R"([{"name": "node-0"}, {"name": "node-1"}])", .images = R"({"python": {}})"}};
  TestCluster cluster_{{.workers = 0,
                        .allocator = false,
                        .adaptdl_http = true,
                        .kubernetes = api_.url(),
                        .supervisor_flags = {"--own-pod", "leader"}}};
};

TEST_F(KubernetesAdaptdlTest, ProgramsMeetAndAreRescaledByRestarts) {
  ASSERT_TRUE(client_.Create(kube::Collection(AdaptDLJobs(), "default"), MeetObject(), by_).ok());
  ASSERT_TRUE(cluster_
                  .WaitForJob(
                      "job", [](const v1::Job&) { return true; }, kHttpPatience)
                  .ok());
  ASSERT_TRUE(cluster_.Allocate("job", {"node-0"}).ok());
  WaitForMeeting(1, 1);
  ASSERT_TRUE(cluster_.Allocate("job", {"node-0", "node-1"}).ok());
  WaitForMeeting(2, 2);
  ASSERT_TRUE(cluster_.Allocate("job", {"node-1"}).ok());
  const v1::Job job = WaitForMeeting(3, 1);
  EXPECT_EQ(job.status().restarts(), 2);
  EXPECT_EQ(job.status().failures(), 0);
}

// By which a Service finds the leader: those programs know one address.
TEST_F(KubernetesAdaptdlTest, ThePodThatLeadsSaysSo) {
  EXPECT_EQ(LabelOf("leader"), "true");
  // Its container was started again, and another one leads by now.
  Process standby = StartStandby(&cluster_, {"--own-pod", "standby"});
  while (LabelOf("standby") == "true") ASSERT_EQ(standby.Wait(absl::Milliseconds(20)), -1) << "it ended";
  EXPECT_EQ(LabelOf("standby"), "");
  EXPECT_EQ(LabelOf("leader"), "true");
}

TEST_F(KubernetesAdaptdlTest, NothingInAPodIsASecretAndStrangersAreNobody) {
  ASSERT_TRUE(client_.Create(kube::Collection(AdaptDLJobs(), "default"), MeetObject(), by_).ok());
  ASSERT_TRUE(cluster_
                  .WaitForJob(
                      "job", [](const v1::Job&) { return true; }, kHttpPatience)
                  .ok());
  ASSERT_TRUE(cluster_.Allocate("job", {"node-0"}).ok());
  WaitForMeeting(1, 1);
  const std::string url = VariableOfPod("ADAPTDL_SUPERVISOR_URL");
  EXPECT_THAT(url, testing::ContainsRegex("^http://127.0.0.1:[0-9]+$"));
  // From another address than the pod's.
  const auto answer =
      HttpClient().Send({.method = "GET", .url = absl::StrCat(url, "/discover/default/job/0")});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->status, 404);
}

}  // namespace
}  // namespace adaptdl::integration
