// The real program adaptdl-autoscaler, with a script for the worker.

#include <signal.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "adaptdl/v1/autoscaler_service.grpc.pb.h"
#include "gmock/gmock.h"
#include "libs/base/file.h"
#include "libs/base/process/daemon.h"
#include "libs/certificates/certificates.h"
#include "libs/rpc/channel.h"
#include "tests/libs/base/process/process_fixture.h"
#include "tests/services/autoscaler/fake_cluster.h"

namespace adaptdl::autoscaler {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kProgram[] = ADAPTDL_BINARY_DIR "/bin/adaptdl-autoscaler";

class AutoscalerProgramTest : public ProcessTest {
 protected:
  ~AutoscalerProgramTest() override {
    for (int k = 0; k < 4; ++k) {
      const auto worker = Worker(k);
      if (worker.ok()) EndLater(*worker);
    }
  }

  absl::StatusOr<ProcessIdentity> Worker(int k) const {
    return ParseIdentity(Content(absl::StrCat(folder_, "/state/nodes/local-", k, "/pid")));
  }

  void Start(const std::vector<std::string>& more = {}) {
    const std::string worker = Script("worker", "exec sleep 1000\n");
    std::vector<std::string> command = {kProgram,
                                        "--listen=127.0.0.1:0",
                                        "--metrics-listen=127.0.0.1:0",
                                        absl::StrCat("--address-file=", folder_, "/address"),
                                        absl::StrCat("--supervisor=", cluster_.address()),
                                        absl::StrCat("--allocator=", cluster_.address()),
                                        absl::StrCat("--state-dir=", folder_, "/state"),
                                        absl::StrCat("--worker-binary=", worker),
                                        "--max-nodes=3",
                                        "--cooldown=0s",
                                        "--poll-period=10ms"};
    command.insert(command.end(), secure_.begin(), secure_.end());
    command.insert(command.end(), more.begin(), more.end());
    const auto started = StartDaemon({.command = command,
                                      .environment = std::vector<std::string>{"PATH=/usr/bin:/bin"},
                                      .log_file = folder_ + "/log"});
    ASSERT_TRUE(started.ok()) << started.status();
    program_ = *started;
    EndLater(program_);
  }

  bool Ends() {
    return Eventually([this] { return !IsAlive(program_); });
  }

  v1::NodePool Pool() {
    const auto stub =
        v1::AutoscalerService::NewStub(rpc::CreateChannel(Content(folder_ + "/address"), rpc::Plaintext()));
    grpc::ClientContext context;
    rpc::SetTimeout(&context, absl::Seconds(30));
    v1::ListNodePoolsResponse response;
    const grpc::Status status = stub->ListNodePools(&context, {}, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.node_pools_size() == 1 ? response.node_pools(0) : v1::NodePool();
  }

  std::vector<std::string> secure_ = {"--insecure"};
  FakeCluster cluster_;
  ProcessIdentity program_;
};

TEST_F(AutoscalerProgramTest, KeepsItsPoolAndLeavesTheWorkersWhenItEnds) {
  cluster_.SetDesired(2);
  Start();
  ASSERT_TRUE(Eventually([&] { return Exists(folder_ + "/address"); })) << Content(folder_ + "/log");
  ASSERT_TRUE(Eventually([&] { return Pool().current_nodes() == 2; })) << Content(folder_ + "/log");
  EXPECT_EQ(Pool().provider(), "process");
  const ProcessIdentity worker = Worker(0).value();
  ASSERT_TRUE(SignalProcess(program_, SIGTERM).ok());
  ASSERT_TRUE(Ends());
  EXPECT_TRUE(IsAlive(worker));
  // Another one finds them, also after a crash, and shrinks the pool to its minimum.
  for (const int how_it_ended : {SIGKILL, SIGTERM}) {
    Start();
    ASSERT_TRUE(Eventually([&] { return Exists(folder_ + "/address") && Pool().current_nodes() == 2; }));
    EXPECT_EQ(Worker(0).value(), worker);
    ASSERT_TRUE(SignalProcess(program_, how_it_ended).ok());
    ASSERT_TRUE(Ends());
    // After an orderly end it is gone already.
    EXPECT_EQ(std::filesystem::remove(folder_ + "/address"), how_it_ended == SIGKILL);
  }
  cluster_.SetDesired(0, {"local-1"});
  cluster_.SetNode("local-0", v1::NODE_PHASE_READY, 1);
  cluster_.SetNode("local-1", v1::NODE_PHASE_READY, 0);
  Start();
  ASSERT_TRUE(Eventually([&] { return cluster_.nodes().size() == 1; })) << Content(folder_ + "/log");
  EXPECT_TRUE(cluster_.drained().contains("local-1"));
  EXPECT_FALSE(Worker(1).ok());
  EXPECT_TRUE(IsAlive(worker));
}

TEST_F(AutoscalerProgramTest, RefusesLimitsThatContradictEachOther) {
  Start({"--min-nodes=5"});
  ASSERT_TRUE(Ends());
  EXPECT_THAT(Content(folder_ + "/log"), HasSubstr("--min-nodes 5 is more than --max-nodes 3"));
}

TEST_F(AutoscalerProgramTest, GivesWorkersACertificateOfTheirOwn) {
  const auto made = certificates::MakeCertificates(
      {.folder = folder_ + "/tls", .identities = certificates::AllServices(), .now = absl::Now()});
  ASSERT_TRUE(made.ok()) << made.status();
  const std::string own = folder_ + "/tls/autoscaler";
  secure_ = {"--tls-cert=" + own + "/cert.pem", "--tls-key=" + own + "/key.pem",
             "--tls-ca=" + own + "/ca.pem"};
  Start();
  ASSERT_TRUE(Ends());
  EXPECT_THAT(Content(folder_ + "/log"), HasSubstr("--worker-tls-cert and --worker-tls-key are needed"));
  Start({"--worker-tls-cert=" + folder_ + "/tls/worker/cert.pem",
         "--worker-tls-key=" + folder_ + "/tls/allocator/key.pem"});
  ASSERT_TRUE(Ends());
  EXPECT_THAT(Content(folder_ + "/log"), HasSubstr("does not belong to the key"));
}

TEST_F(AutoscalerProgramTest, PrintsWhatTheTemplateOfAGroupHolds) {
  const std::string pools = folder_ + "/pools.yaml";
  ASSERT_TRUE(
      WriteFileAtomically(pools,
                          "pools:\n"
                          "- name: training\n"
                          "  provider: aws\n"
                          "  instanceType: p4d.24xlarge\n"
                          "  cpus: 95\n"
                          "  memory: 1100Gi\n"
                          "  gpus: 8\n"
                          "  maxNodes: 4\n"
                          "  labels: {tier: big}\n"
                          "  storage: {url: \"s3://models/jobs\", region: eu-west-1}\n"
                          "  aws: {region: r, autoScalingGroup: g, workerImage: registry.example/w}\n",
                          0600)
          .ok());
  const auto print = [&](const std::string& pool) {
    const auto printed =
        StartDaemon({.command = {kProgram, "--insecure", "--pools=" + pools,
                                 "--advertised-supervisor=10.0.0.10:7100", "--print-user-data=" + pool},
                     .environment = std::vector<std::string>{"PATH=/usr/bin:/bin"},
                     .log_file = folder_ + "/" + pool});
    EXPECT_TRUE(printed.ok()) << printed.status();
    EXPECT_TRUE(Eventually([&] { return !IsAlive(*printed); }));
    return Content(folder_ + "/" + pool);
  };
  const std::string script = print("training");
  EXPECT_THAT(script, StartsWith("#!/bin/bash\n"));
  EXPECT_THAT(script, HasSubstr("--supervisor='10.0.0.10:7100'"));
  EXPECT_THAT(script, HasSubstr("--label='adaptdl.petuum.com/pool=training'"));
  EXPECT_THAT(script, HasSubstr("--label='tier=big'"));
  EXPECT_THAT(script, HasSubstr("--gpus all"));
  EXPECT_THAT(script, HasSubstr("'--storage-url=s3://models/jobs'"));
  EXPECT_THAT(script, HasSubstr("'--storage-region=eu-west-1'"));
  EXPECT_THAT(script, Not(HasSubstr("--storage-dir")));
  EXPECT_THAT(script, HasSubstr("registry.example/w"));
  EXPECT_THAT(print("other"), HasSubstr("--print-user-data \"other\""));
}

TEST_F(AutoscalerProgramTest, RefusesABudgetWithoutAPrice) {
  Start({"--target=budget", "--budget-per-hour=3"});
  ASSERT_TRUE(Ends());
  EXPECT_THAT(Content(folder_ + "/log"), HasSubstr("--target budget needs --node-price-per-hour"));
}

TEST_F(AutoscalerProgramTest, RefusesFlagsOfAnotherTarget) {
  Start({"--deadline=2030-12-24T18:00:00Z"});
  ASSERT_TRUE(Ends());
  EXPECT_THAT(Content(folder_ + "/log"), HasSubstr("--deadline needs --target deadline"));
}

TEST_F(AutoscalerProgramTest, RefusesADeadlineThatIsNoTime) {
  Start({"--target=deadline", "--deadline=tomorrow"});
  ASSERT_TRUE(Ends());
  EXPECT_THAT(Content(folder_ + "/log"), HasSubstr("not \"tomorrow\""));
}

TEST_F(AutoscalerProgramTest, KeepsWithinItsBudget) {
  cluster_.SetDesired(3);
  Start({"--target=budget", "--budget-per-hour=3", "--node-price-per-hour=1.4"});
  ASSERT_TRUE(Eventually([&] { return Exists(folder_ + "/address"); })) << Content(folder_ + "/log");
  ASSERT_TRUE(Eventually([&] { return Pool().current_nodes() == 2; })) << Content(folder_ + "/log");
  EXPECT_THAT(Pool().reason(), HasSubstr("at most 3.00 per hour, which is too little for 1 of 3 jobs"));
}

TEST_F(AutoscalerProgramTest, RefusesAnUnknownProvider) {
  Start({"--provider=magic"});
  ASSERT_TRUE(Ends());
  EXPECT_THAT(Content(folder_ + "/log"), HasSubstr("--provider"));
}

TEST_F(AutoscalerProgramTest, RefusesANameThatIsNoLabel) {
  Start({"--pool=Not/A/Name"});
  ASSERT_TRUE(Ends());
  EXPECT_THAT(Content(folder_ + "/log"), HasSubstr("no name for a pool"));
}

TEST_F(AutoscalerProgramTest, SaysWhatAPoolOfKubernetesNeeds) {
  Start({"--provider=kubernetes", "--node-selector=pool=gpu"});
  ASSERT_TRUE(Ends());
  EXPECT_THAT(Content(folder_ + "/log"), HasSubstr("needs --node-resources"));
  Start({"--provider=kubernetes", "--node-selector=pool"});
  ASSERT_TRUE(Ends());
  EXPECT_THAT(Content(folder_ + "/log"), HasSubstr("--node-selector \"pool\": give NAME=VALUE"));
  Start({"--provider=kubernetes", "--node-selector=pool=gpu", "--node-resources={\"cpu\": \"1\"}",
         absl::StrCat("--kubeconfig=", folder_, "/none")});
  ASSERT_TRUE(Ends());
  EXPECT_THAT(Content(folder_ + "/log"), HasSubstr(folder_ + "/none"));
}

}  // namespace
}  // namespace adaptdl::autoscaler
