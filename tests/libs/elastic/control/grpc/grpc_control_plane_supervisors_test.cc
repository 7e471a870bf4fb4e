// The gRPC control plane and which supervisor it trusts: one with TLS, and one of several.

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "libs/base/file.h"
#include "libs/certificates/certificates.h"
#include "tests/libs/elastic/control/grpc/grpc_control_plane_fixture.h"

namespace adaptdl::elastic {
namespace {

// A supervisor with TLS.
class SecureControlPlaneTest : public ::testing::Test {
 protected:
  SecureControlPlaneTest() {
    std::string pattern = testing::TempDir() + "/adaptdl-control-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    for (const char* cluster : {"/own", "/other"}) {
      EXPECT_TRUE(
          certificates::MakeCertificates(
              {.folder = folder_ + cluster, .identities = {{.service = "supervisor"}}, .now = absl::Now()})
              .ok());
    }
    grpc::SslServerCredentialsOptions tls;
    tls.pem_key_cert_pairs = {{ReadWholeFile(folder_ + "/own/supervisor/key.pem").value(),
                               ReadWholeFile(folder_ + "/own/supervisor/cert.pem").value()}};
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::SslServerCredentials(tls), &port_);
    builder.RegisterService(&supervisor_);
    server_ = builder.BuildAndStart();
  }
  ~SecureControlPlaneTest() override {
    server_->Shutdown(std::chrono::system_clock::now());
    std::filesystem::remove_all(folder_);
  }

  absl::Status Report(const std::string& ca, const std::string& name = "") {
    GrpcControlPlaneOptions options;
    options.supervisor_address = "127.0.0.1:" + std::to_string(port_);
    options.supervisor_ca = ca.empty() ? "" : folder_ + ca;
    options.supervisor_tls_name = name;
    options.group = 3;
    options.token = "secret";
    return CreateGrpcControlPlane(options)->ReportHints(Hints());
  }

  std::string folder_;
  int port_ = 0;
  FakeSupervisor supervisor_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(SecureControlPlaneTest, ProvesWhoItIsToTheRightSupervisorOnly) {
  EXPECT_TRUE(Report("/own/ca.pem").ok());
  EXPECT_EQ(supervisor_.hints_callers.Take(), "3 Bearer secret");
  EXPECT_TRUE(absl::IsUnavailable(Report("/other/ca.pem")));
  EXPECT_TRUE(absl::IsUnavailable(Report("/own/ca.pem", "adaptdl.example.com")));
  EXPECT_TRUE(absl::IsUnavailable(Report("")));
}

// Two supervisors, of which the second has taken over from the first.
class SeveralSupervisorsTest : public GrpcControlPlaneTest {
 protected:
  void SetUp() override {
    GrpcControlPlaneTest::SetUp();
    std::string second;
    second_server_ = Serve(&second_, &second);
    control_ = ControlPlaneAt(address_ + "," + second);
  }
  void TearDown() override {
    control_->Shutdown();
    second_server_->Shutdown(std::chrono::system_clock::now());
    GrpcControlPlaneTest::TearDown();
  }

  static v1::HeartbeatResponse CommandOf(int64_t term, v1::ReplicaCommand command, int64_t id,
                                         const std::string& reason) {
    v1::HeartbeatResponse response = Command(command, id, reason);
    response.set_term(term);
    return response;
  }
  static grpc::Status Formed(grpc::ServerWriter<v1::JoinGroupResponse>* writer, int64_t term, int rank) {
    v1::JoinGroupResponse formed;
    formed.set_term(term);
    formed.mutable_formed()->set_group(3);
    formed.mutable_formed()->set_rank(rank);
    formed.mutable_formed()->set_world_size(2);
    writer->Write(formed);
    return grpc::Status::OK;
  }

  FakeSupervisor second_;
  std::unique_ptr<grpc::Server> second_server_;
};

TEST_F(SeveralSupervisorsTest, LeavesOneThatDoesNotAnswer) {
  supervisor_.on_heartbeat = [&](grpc::ServerContext*, HeartbeatStream* stream) {
    stream->Write(CommandOf(1, v1::REPLICA_COMMAND_NONE, 0, ""));
    ReadAll(stream);  // As if it was stopped.
    return grpc::Status::OK;
  };
  second_.on_heartbeat = [&](grpc::ServerContext*, HeartbeatStream* stream) {
    stream->Write(CommandOf(2, v1::REPLICA_COMMAND_CHECKPOINT, 1, "from the second"));
    ReadAll(stream);
    return grpc::Status::OK;
  };
  control_->Start(&observer_);
  EXPECT_EQ(observer_.events.Take(), "checkpoint from the second");
}

TEST_F(SeveralSupervisorsTest, OneThatHasTakenOverIsToldWhatTheReplicaJoinedWith) {
  supervisor_.on_join = [](grpc::ServerContext*, const v1::JoinGroupRequest&,
                           grpc::ServerWriter<v1::JoinGroupResponse>* writer) {
    return Formed(writer, 1, 1);
  };
  supervisor_.on_heartbeat = [](grpc::ServerContext*, HeartbeatStream*) {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "over");
  };
  std::atomic<int> joins = 0;
  Mailbox<v1::JoinGroupRequest> joined;
  second_.on_join = [&](grpc::ServerContext*, const v1::JoinGroupRequest& request,
                        grpc::ServerWriter<v1::JoinGroupResponse>* writer) {
    ++joins;
    joined.Put(request);
    // The others have not told it yet.
    v1::JoinGroupResponse forming;
    forming.set_term(2);
    forming.mutable_forming();
    writer->Write(forming);
    return grpc::Status::OK;
  };
  second_.on_heartbeat = [&](grpc::ServerContext*, HeartbeatStream* stream) {
    stream->Write(CommandOf(2, v1::REPLICA_COMMAND_CHECKPOINT, 1, joins > 0 ? "joined" : "unknown"));
    ReadAll(stream);
    return grpc::Status::OK;
  };
  ASSERT_TRUE(control_->JoinGroup("10.0.0.1:4000").ok());
  control_->Start(&observer_);
  const v1::JoinGroupRequest request = joined.Take();
  EXPECT_EQ(request.address(), "10.0.0.1:4000");
  EXPECT_TRUE(request.rescales_in_place());
  EXPECT_EQ(request.identity().group(), 3);
  EXPECT_EQ(observer_.events.Take(), "checkpoint joined");
}

TEST_F(SeveralSupervisorsTest, IgnoresOneWhoseTermIsOver) {
  std::atomic<int> calls = 0;
  supervisor_.on_heartbeat = [&](grpc::ServerContext*, HeartbeatStream* stream) {
    // Leads, fails, comes back without having noticed, and leads again.
    const int64_t terms[] = {5, 4, 7};
    const int call = calls++;
    const int64_t term = terms[std::min(call, 2)];
    stream->Write(
        CommandOf(term, v1::REPLICA_COMMAND_CHECKPOINT, call + 1, "in term " + std::to_string(term)));
    if (term == 5) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "over");
    ReadAll(stream);
    return grpc::Status::OK;
  };
  second_.on_heartbeat = [&](grpc::ServerContext*, HeartbeatStream*) {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "a standby");
  };
  control_->Start(&observer_);
  EXPECT_EQ(observer_.events.Take(), "checkpoint in term 5");
  EXPECT_EQ(observer_.events.Take(), "checkpoint in term 7");
}

TEST_F(SeveralSupervisorsTest, JoinsWithTheNewestLeader) {
  supervisor_.on_join = [&](grpc::ServerContext*, const v1::JoinGroupRequest&,
                            grpc::ServerWriter<v1::JoinGroupResponse>* writer) {
    v1::JoinGroupResponse forming;
    forming.set_term(3);
    forming.mutable_forming();
    writer->Write(forming);
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "over");
  };
  std::atomic<int> calls = 0;
  second_.on_join = [&](grpc::ServerContext*, const v1::JoinGroupRequest&,
                        grpc::ServerWriter<v1::JoinGroupResponse>* writer) {
    const bool stale = calls++ == 0;
    return Formed(writer, stale ? 2 : 4, stale ? 0 : 1);
  };
  const auto membership = control_->JoinGroup("");
  ASSERT_TRUE(membership.ok()) << membership.status();
  EXPECT_EQ(membership->rank, 1);
  EXPECT_EQ(calls, 2);
}

}  // namespace
}  // namespace adaptdl::elastic
