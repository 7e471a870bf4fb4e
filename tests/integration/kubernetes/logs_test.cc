// What replicas have written, by the real command, when their pods are gone.

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/file.h"
#include "libs/kube/client/client.h"
#include "tests/integration/kubernetes/kubernetes_test.h"
#include "tests/integration/test_cluster.h"
#include "tests/kube/double.h"

namespace adaptdl::integration {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr absl::Duration kLogPatience = absl::Minutes(1);
// Alone it ends at once; with others it goes on until it is told to stop.
constexpr char kProgram[] = R"(trap 'echo "stop $ADAPTDL_REPLICA_RANK"; exit 143' TERM
echo "begin $ADAPTDL_REPLICA_RANK of $ADAPTDL_NUM_REPLICAS"
while test "$ADAPTDL_NUM_REPLICAS" != 1; do sleep 0.1; done
echo end)";

class KubernetesLogsTest : public KubernetesTest {
 protected:
  void SetUp() override {
    if (!kubelet_.runs()) GTEST_SKIP() << "no containers may run here: be root with CAP_SYS_ADMIN";
    const absl::Status started = cluster_.Start();
    ASSERT_TRUE(started.ok()) << started;
    ASSERT_TRUE(cluster_.WaitForNodes(2, kLogPatience).ok());
  }

  v1::Job Job(const std::string& name) const {
    v1::Job job = cluster_.CommandJob(name, {"sh", "-c", kProgram});
    job.mutable_spec()->mutable_template_()->set_image("shell");
    job.mutable_spec()->set_max_replicas(2);
    return job;
  }
  std::vector<std::string> Command(const std::vector<std::string>& arguments) const {
    std::vector<std::string> command = {cluster_.Binary("adaptdl")};
    command.insert(command.end(), arguments.begin(), arguments.end());
    const std::vector<std::string> flags = cluster_.CommandFlags();
    command.insert(command.end(), flags.begin(), flags.end());
    return command;
  }
  // What `adaptdl ARGUMENTS` says.
  std::string Says(const std::vector<std::string>& arguments) {
    const std::string file = absl::StrCat(cluster_.folder(), "/said-", ++said_);
    Process::Start(Command(arguments), file).Wait(kLogPatience);
    return ReadWholeFile(file).value_or("");
  }
  std::vector<kube::Json> Pods() {
    return client_.ListAll(kube::Collection(kube::Pods(), "default")).value();
  }
  void AwaitGone(const std::vector<kube::Json>& pods) {
    const absl::Time deadline = absl::Now() + kLogPatience;
    for (const kube::Json& pod : pods) {
      const kube::Target target = kube::ObjectOf(kube::Pods(), kube::KeyOf(pod));
      while (!absl::IsNotFound(client_.Get(target).status())) ASSERT_LT(absl::Now(), deadline) << pod.dump(1);
    }
  }

  int said_ = 0;
  kube::KubeletDouble kubelet_{
      api_.url(), {.nodes = R"([{"name": "node-0"}, {"name": "node-1"}])", .images = R"({"shell": {}})"}};
  TestCluster cluster_{{.workers = 0, .allocator = false, .kubernetes = api_.url(), .keep_pods = "none"}};
};

TEST_F(KubernetesLogsTest, ReplicasAreHeardWhenTheirPodsAreGone) {
  const auto submitted = cluster_.Submit(Job("a"));
  ASSERT_TRUE(submitted.ok()) << submitted.status();
  ASSERT_TRUE(cluster_.Allocate("a", {"node-0", "node-1"}).ok());
  // Until then, nothing hears the order to stop.
  ASSERT_TRUE(cluster_.WaitForLog("a", "begin 0 of 2", kLogPatience));
  ASSERT_TRUE(cluster_.WaitForLog("a", "begin 1 of 2", kLogPatience));
  const std::string followed = cluster_.folder() + "/followed";
  Process follower = Process::Start(Command({"logs", "a", "--follow"}), followed);
  ASSERT_TRUE(cluster_.Allocate("a", {"node-1"}).ok());
  const auto job = cluster_.WaitForJob("a", Finished, kLogPatience);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->status().phase(), v1::JOB_PHASE_SUCCEEDED) << job->status().ShortDebugString();
  EXPECT_EQ(follower.Wait(kLogPatience), 0);
  const auto all =
      AllOf(HasSubstr("begin 0 of 2"), HasSubstr("begin 1 of 2"), HasSubstr("stop 0"), HasSubstr("stop 1"),
            HasSubstr("begin 0 of 1"), HasSubstr("end"), Not(HasSubstr("warning")));
  EXPECT_THAT(ReadWholeFile(followed).value_or(""), all);
  AwaitGone(Pods());
  EXPECT_THAT(Says({"logs", "a"}), all);
  EXPECT_THAT(Says({"logs", "a", "--rank", "1"}),
              AllOf(HasSubstr("begin 1 of 2"), HasSubstr("stop 1"), Not(HasSubstr("begin 0"))));
  EXPECT_THAT(Says({"logs", "a", "--tail", "1"}),
              AllOf(HasSubstr("stop 0"), HasSubstr("stop 1"), HasSubstr("end"), Not(HasSubstr("begin"))));
  // Its disk has them, so also after a restart.
  cluster_.supervisor().Kill();
  ASSERT_TRUE(cluster_.StartSupervisor().ok());
  EXPECT_THAT(Says({"logs", "a"}), all);
}

TEST_F(KubernetesLogsTest, AnEvictedReplicaIsHeardToTheLast) {
  const auto submitted = cluster_.Submit(Job("a"));
  ASSERT_TRUE(submitted.ok()) << submitted.status();
  ASSERT_TRUE(cluster_.Allocate("a", {"node-0", "node-1"}).ok());
  ASSERT_TRUE(cluster_.WaitForLog("a", "begin 1 of 2", kLogPatience));
  ASSERT_TRUE(cluster_.WaitForLog("a", "begin 0 of 2", kLogPatience));
  const std::vector<kube::Json> pods = Pods();
  ASSERT_EQ(pods.size(), 2u);
  for (const kube::Json& pod : pods) kubelet_.Evict("default", kube::KeyOf(pod).name);
  AwaitGone(pods);
  EXPECT_THAT(Says({"logs", "a", "--group", "1"}), AllOf(HasSubstr("begin 0 of 2"), HasSubstr("stop 0"),
                                                         HasSubstr("stop 1"), Not(HasSubstr("warning"))));
}

TEST_F(KubernetesLogsTest, FilesAreRefusedWithTheRemedy) {
  ASSERT_TRUE(cluster_.Submit(Job("a")).ok());
  v1::ReadFilesRequest request;
  request.set_name("a");
  request.set_folder(v1::JOB_FOLDER_CHECKPOINT);
  grpc::ClientContext context;
  const auto stream = cluster_.jobs().ReadFiles(&context, request);
  v1::ReadFilesResponse response;
  EXPECT_FALSE(stream->Read(&response));
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_THAT(status.error_message(), HasSubstr("kubectl cp"));
}

}  // namespace
}  // namespace adaptdl::integration
