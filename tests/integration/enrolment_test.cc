// Machines join a cluster with TLS, each with folders of its own in place of a machine: by a token, or as one of a pool.

#include <csignal>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "adaptdl/v1/node_pool_service.grpc.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/file.h"
#include "libs/certificates/certificates.h"
#include "libs/certificates/openssl.h"
#include "libs/enrolment/join_token.h"
#include "libs/enrolment/node_identity.h"
#include "libs/rpc/channel.h"
#include "tests/integration/test_cluster.h"

namespace adaptdl::integration {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr absl::Duration kPatience = absl::Minutes(1);

bool IsReady(const v1::Node& node) { return node.status().phase() == v1::NODE_PHASE_READY; }

class EnrolmentTest : public testing::Test {
 protected:
  void Start(std::vector<std::string> supervisor_flags = {}) {
    cluster_ = std::make_unique<TestCluster>(TestClusterOptions{
        .workers = 0, .node_authority = true, .supervisor_flags = std::move(supervisor_flags)});
    const absl::Status started = cluster_->Start();
    ASSERT_TRUE(started.ok()) << started;
  }

  // Where a machine has its files.
  std::string Machine(const std::string& name) {
    const std::string folder = absl::StrCat(cluster_->folder(), "/machine-", name);
    std::filesystem::create_directories(folder);
    return folder;
  }

  // Runs the command line tool. Its exit code; what it wrote, standard error included, is in output_.
  int Adaptdl(const std::vector<std::string>& arguments) {
    std::vector<std::string> command = {cluster_->Binary("adaptdl")};
    command.insert(command.end(), arguments.begin(), arguments.end());
    const std::string log = absl::StrCat(cluster_->folder(), "/adaptdl-", ++runs_, ".log");
    const int code = Process::Start(command, log).Wait(kPatience);
    output_ = ReadWholeFile(log).value_or("");
    return code;
  }

  // A token, as an administrator gets it.
  std::string CreateToken(std::vector<std::string> flags = {}) {
    std::vector<std::string> command = {"admin", "join-token", "create"};
    for (const auto& more : {cluster_->CommandFlags(), std::move(flags)}) {
      command.insert(command.end(), more.begin(), more.end());
    }
    EXPECT_EQ(Adaptdl(command), 0) << output_;
    return std::vector<std::string>(absl::StrSplit(output_, '\n')).front();
  }
  static std::string Write(const std::string& path, const std::string& text) {
    EXPECT_TRUE(WriteFileAtomically(path, text, 0600).ok());
    return path;
  }

  // On a machine: joins, but for systemd.
  int Join(const std::string& node, const std::string& token) {
    const std::string folder = Machine(node);
    return Adaptdl({"node", "join", "--supervisor", cluster_->supervisor_address(), "--token-file",
                    Write(folder + "/token", token), "--node", node, "--listen", "127.0.0.1:0",
                    "--storage-dir", cluster_->storage(), "--settings", folder + "/worker.env", "--state-dir",
                    folder + "/state", "--security-dir", folder + "/security", "--no-start"});
  }

  // Starts the worker as its unit would: with the settings as its environment.
  void StartJoined(const std::string& node) {
    std::vector<std::string> command = {"/usr/bin/env"};
    const std::string text = ReadWholeFile(Machine(node) + "/worker.env").value_or("");
    for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
      if (line.front() != '#') command.emplace_back(line);
    }
    StartProgram(node, std::move(command), {});
  }
  // Starts the worker of a machine that joins by itself.
  void StartWorker(const std::string& node, const std::vector<std::string>& flags) {
    std::vector<std::string> all = {"--supervisor",  cluster_->supervisor_address(),
                                    "--node-id",     node,
                                    "--listen",      "127.0.0.1:0",
                                    "--tls-ca",      cluster_->SecurityFile("ca.pem"),
                                    "--storage-dir", cluster_->storage()};
    all.insert(all.end(), flags.begin(), flags.end());
    StartProgram(node, {}, all);
  }
  void StartProgram(const std::string& node, std::vector<std::string> command,
                    const std::vector<std::string>& flags) {
    const std::vector<std::string> common = {cluster_->Binary("adaptdl-worker"),
                                             "--state-dir",
                                             Machine(node) + "/state",
                                             "--metrics-listen",
                                             "",
                                             "--cpus",
                                             "1",
                                             "--gpus",
                                             "0",
                                             "--replica-user",
                                             "self"};
    for (const auto& more : {common, flags}) command.insert(command.end(), more.begin(), more.end());
    workers_[node] = Process::Start(command, Machine(node) + "/worker.log");
  }

  void AwaitReady(const std::string& node) {
    const auto found = cluster_->WaitForNode(node, IsReady, kPatience);
    EXPECT_TRUE(found.ok()) << found.status() << ReadWholeFile(Machine(node) + "/worker.log").value_or("");
  }
  void RunJob(const std::string& name) {
    ASSERT_TRUE(cluster_->Submit(cluster_->CommandJob(name, {"echo", "hello from here"})).ok());
    const auto job = cluster_->WaitForJob(name, Finished, kPatience);
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_EQ(job->status().phase(), v1::JOB_PHASE_SUCCEEDED);
    // From the worker, by its certificate.
    EXPECT_TRUE(cluster_->WaitForLog(name, "hello from here", kPatience));
  }

  std::string Identity(const std::string& node) { return Machine(node) + "/state/identity"; }
  // A channel of whoever has these files.
  std::shared_ptr<grpc::Channel> Channel(const std::string& certificate, const std::string& key) {
    rpc::ClientSecurity security;
    security.tls = {cluster_->SecurityFile("ca.pem"), certificate, key};
    security.server_name = rpc::kSupervisorName;
    return rpc::CreateChannel(cluster_->supervisor_address(), security);
  }
  static grpc::Status Register(const std::shared_ptr<grpc::Channel>& channel, const std::string& node) {
    v1::RegisterNodeRequest request;
    request.set_request_id(absl::StrCat("register-", node));
    request.mutable_node()->set_node_id(node);
    request.mutable_node()->set_worker_address("127.0.0.1:1");
    request.mutable_node()->set_replica_host("127.0.0.1");
    request.mutable_node()->mutable_capacity()->set_cpu_millis(1000);
    v1::RegisterNodeResponse response;
    grpc::ClientContext context;
    rpc::SetTimeout(&context, kPatience);
    return v1::NodeService::NewStub(channel)->RegisterNode(&context, request, &response);
  }

  std::unique_ptr<TestCluster> cluster_;
  std::map<std::string, Process> workers_;
  int runs_ = 0;
  std::string output_;
};

TEST_F(EnrolmentTest, AMachineJoinsByATokenAndRunsAJob) {
  Start();
  const std::string token = CreateToken();
  EXPECT_THAT(output_, HasSubstr("sudo adaptdl node join --supervisor"));
  ASSERT_EQ(Join("a", token), 0) << output_;
  StartJoined("a");
  AwaitReady("a");
  RunJob("hello");

  EXPECT_EQ(Join("b", token), 1);
  EXPECT_THAT(output_, HasSubstr("was used"));
  EXPECT_FALSE(std::filesystem::exists(enrolment::CertificateFile(Identity("b"))));

  // Another start needs no token.
  workers_["a"].Signal(SIGTERM);
  EXPECT_EQ(workers_["a"].Wait(kPatience), 0);
  StartJoined("a");
  AwaitReady("a");

  // The audit log knows who was let in, and who was not; and no log knows the token.
  const std::string audit = ReadWholeFile(cluster_->folder() + "/supervisor/audit.jsonl").value_or("");
  EXPECT_THAT(audit, HasSubstr("EnrolmentService/CreateJoinToken"));
  EXPECT_THAT(audit, HasSubstr(R"("method":"/adaptdl.v1.EnrolmentService/Enrol","node":"a")"));
  EXPECT_THAT(audit, HasSubstr("PERMISSION_DENIED"));
  const std::string secret = enrolment::ParseJoinToken(token)->secret;
  for (const char* file :
       {"/supervisor/audit.jsonl", "/supervisor.log", "/machine-a/worker.log", "/machine-a/worker.env"}) {
    EXPECT_THAT(ReadWholeFile(cluster_->folder() + file).value_or(""), Not(HasSubstr(secret))) << file;
  }
}

TEST_F(EnrolmentTest, AMachineLeaves) {
  Start();
  ASSERT_EQ(Join("a", CreateToken({"--node", "a", "--expires", "10m"})), 0) << output_;
  StartJoined("a");
  AwaitReady("a");
  const std::string folder = Machine("a");
  std::vector<std::string> leave = {"node",        "leave",           "--settings", folder + "/worker.env",
                                    "--state-dir", folder + "/state", "--no-stop"};
  EXPECT_EQ(Adaptdl(leave), 1) << "it is an operator who lets nodes go";
  EXPECT_THAT(output_, HasSubstr("--force"));
  leave.insert(leave.end(), {"--token-file", cluster_->SecurityFile("admin.token")});
  EXPECT_EQ(Adaptdl(leave), 0) << output_;
  EXPECT_FALSE(std::filesystem::exists(Identity("a")));
}

TEST_F(EnrolmentTest, AWorkerWaitsForItsSupervisorAndJoins) {
  Start();
  const std::string token = CreateToken();
  cluster_->supervisor().Kill();
  const std::string file = Write(Machine("a") + "/token", token);
  StartWorker("a", {"--enrol-token-file", file});
  ASSERT_TRUE(cluster_->StartSupervisor().ok());
  AwaitReady("a");
}

TEST_F(EnrolmentTest, AWorkerWithoutATokenSaysWhatIsMissing) {
  Start();
  StartWorker("a", {"--enrol-token-file", Machine("a") + "/none"});
  EXPECT_NE(workers_["a"].Wait(kPatience), 0);
  EXPECT_THAT(ReadWholeFile(Machine("a") + "/worker.log").value_or(""),
              HasSubstr("adaptdl admin join-token create"));
}

TEST_F(EnrolmentTest, CertificatesAreRenewedWhileTheWorkerRuns) {
  Start({"--node-certificate-lifetime", "12s"});
  ASSERT_EQ(Join("a", CreateToken()), 0) << output_;
  StartJoined("a");
  AwaitReady("a");
  const std::string path = enrolment::CertificateFile(Identity("a"));
  const std::string first = ReadWholeFile(path).value();
  const absl::Time deadline = absl::Now() + kPatience;
  const auto first_end = enrolment::ReadIdentity(Identity("a"), "a")->not_after;
  // Beyond the life of the first one.
  while (absl::Now() < deadline && absl::Now() < first_end + absl::Seconds(1))
    absl::SleepFor(absl::Milliseconds(100));
  EXPECT_NE(ReadWholeFile(path).value(), first);
  EXPECT_EQ(workers_["a"].Wait(absl::ZeroDuration()), -1) << "it runs on";
  // Whoever connects now meets the newest one.
  RunJob("hello");
}

TEST_F(EnrolmentTest, AMachineOfAPoolJoinsFromItsAddressOnce) {
  Start();
  StartWorker("pool-1", {"--enrol-instance", "--instance-id", "i-1"});
  v1::ReportNodePoolsRequest report;
  report.add_pools()->set_name("pool");
  v1::VouchedNode* node = report.add_nodes();
  node->set_node_id("pool-1");
  node->set_pool("pool");
  node->set_instance_id("i-1");
  node->set_address("127.0.0.1");
  v1::ReportNodePoolsResponse response;
  grpc::ClientContext context;
  rpc::SetTimeout(&context, kPatience);
  const auto autoscaler =
      Channel(cluster_->SecurityFile("autoscaler/cert.pem"), cluster_->SecurityFile("autoscaler/key.pem"));
  const grpc::Status reported =
      v1::NodePoolService::NewStub(autoscaler)->ReportNodePools(&context, report, &response);
  ASSERT_TRUE(reported.ok()) << reported.error_message();
  AwaitReady("pool-1");
  // A job there has its address, and can find out what the machine is called.
  StartProgram(
      "thief", {},
      {"--supervisor", cluster_->supervisor_address(), "--node-id", "pool-1", "--listen", "127.0.0.1:0",
       "--tls-ca", cluster_->SecurityFile("ca.pem"), "--enrol-instance", "--instance-id", "i-1"});
  EXPECT_NE(workers_["thief"].Wait(kPatience), 0);
  EXPECT_THAT(ReadWholeFile(Machine("thief") + "/worker.log").value_or(""),
              HasSubstr("does not let this machine in"));
}

TEST_F(EnrolmentTest, TokensAreGoodAtTheNextSupervisorAndUsedOnesAreUsed) {
  Start();
  const std::string token = CreateToken();
  const std::string used = CreateToken();
  ASSERT_EQ(Join("a", used), 0) << output_;
  std::vector<std::string> command = {cluster_->Binary("adaptdl-supervisor"),
                                      "--listen",
                                      absl::StrCat("127.0.0.1:", FreePort()),
                                      "--metrics-listen",
                                      "",
                                      "--state-dir",
                                      cluster_->folder() + "/supervisor",
                                      "--node-authority-cert",
                                      cluster_->SecurityFile("node-authority/cert.pem"),
                                      "--node-authority-key",
                                      cluster_->SecurityFile("node-authority/key.pem"),
                                      "--lease-duration",
                                      "1s"};
  const std::string second = command[2];
  for (const std::string& flag : cluster_->ServiceFlags("supervisor")) command.push_back(flag);
  const Process standby = Process::Start(command, cluster_->folder() + "/standby.log");
  cluster_->supervisor().Kill();
  // The first one is away, the second one may not lead yet.
  const auto join = [&](const std::string& node, const std::string& with) {
    const std::string folder = Machine(node);
    return Adaptdl({"node", "join", "--supervisor", absl::StrCat(cluster_->supervisor_address(), ",", second),
                    "--call-timeout", "30s", "--token-file", Write(folder + "/token", with), "--node", node,
                    "--listen", "127.0.0.1:0", "--settings", folder + "/worker.env", "--state-dir",
                    folder + "/state", "--security-dir", folder + "/security", "--no-start"});
  };
  EXPECT_EQ(join("b", token), 0) << output_;
  EXPECT_EQ(join("c", used), 1);
  EXPECT_THAT(output_, HasSubstr("was used"));
}

TEST_F(EnrolmentTest, AStolenCertificateIsOfNoOtherNode) {
  Start();
  ASSERT_EQ(Join("a", CreateToken()), 0) << output_;
  const auto thief = Channel(enrolment::CertificateFile(Identity("a")), enrolment::KeyFile(Identity("a")));
  const grpc::Status other = Register(thief, "b");
  EXPECT_EQ(other.error_code(), grpc::StatusCode::PERMISSION_DENIED) << other.error_message();
  // Nor is it renewed for another one.
  rpc::Endpoints supervisors({cluster_->supervisor_address()}, [&](const std::string&) { return thief; });
  const absl::Status renewed =
      enrolment::RenewOnce(Machine("thief"), "b", enrolment::CallOf(&supervisors, kPatience));
  EXPECT_TRUE(absl::IsPermissionDenied(renewed)) << renewed;
  EXPECT_TRUE(Register(thief, "a").ok());
}

// Whoever has broken into the supervisor's machine far enough to read this one key.
TEST_F(EnrolmentTest, AStolenNodeAuthorityMakesWorkersOnly) {
  Start();
  const auto authority = certificates::CertificateFromPem(
                             ReadWholeFile(cluster_->SecurityFile("node-authority/cert.pem")).value())
                             .value();
  const auto authority_key =
      certificates::KeyFromPem(ReadWholeFile(cluster_->SecurityFile("node-authority/key.pem")).value())
          .value();
  const auto forge = [&](const std::string& uri) {
    const auto key = certificates::MakeKey().value();
    const auto certificate = certificates::MakeCertificate({.common_name = "worker.adaptdl",
                                                            .dns_name = "worker.adaptdl",
                                                            .uri = uri,
                                                            .not_before = absl::Now() - absl::Minutes(5),
                                                            .not_after = absl::Now() + absl::Hours(1)},
                                                           key.get(), authority.get(), authority_key.get())
                                 .value();
    const std::string folder = Machine("forger");
    return Channel(Write(folder + "/cert.pem",
                         certificates::ToPem(certificate.get()) + certificates::ToPem(authority.get())),
                   Write(folder + "/key.pem", certificates::ToPem(key.get())));
  };
  for (const char* uri : {"spiffe://adaptdl/worker", "spiffe://adaptdl/supervisor",
                          "spiffe://adaptdl/allocator", "spiffe://adaptdl/autoscaler"}) {
    const grpc::Status status = Register(forge(uri), "x");
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED)
        << uri << ": " << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr("node authority")) << uri;
  }
  EXPECT_TRUE(Register(forge("spiffe://adaptdl/worker/x"), "x").ok());
}

}  // namespace
}  // namespace adaptdl::integration
