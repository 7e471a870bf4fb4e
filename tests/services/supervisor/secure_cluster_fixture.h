// A whole supervisor behind TLS and its guard, with people and services of every role to call it.

#ifndef ADAPTDL_TESTS_SERVICES_SUPERVISOR_SECURE_CLUSTER_FIXTURE_H_
#define ADAPTDL_TESTS_SERVICES_SUPERVISOR_SECURE_CLUSTER_FIXTURE_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "adaptdl/v1/admin_service.grpc.pb.h"
#include "google/protobuf/message.h"
#include "grpcpp/generic/generic_stub.h"
#include "libs/base/file.h"
#include "libs/rpc/security.h"
#include "libs/service/security/permissions.h"
#include "libs/service/security/server_security.h"
#include "libs/service/security/token_file.h"
#include "libs/service/server.h"
#include "libs/service/termination.h"
#include "nlohmann/json.hpp"
#include "tests/libs/service/security/test_certificates.h"
#include "tests/services/supervisor/cluster_fixture.h"

namespace adaptdl::supervisor {

class SecureClusterTest : public ClusterTest {
 protected:
  static void SetUpTestSuite() { service::BlockTerminationSignals(); }

  SecureClusterTest() : authority_(folder_.path(), "ours") {
    server_options_.name = "supervisor";
    server_options_.listen = "127.0.0.1:0";
    server_options_.log_level = "error";
    server_options_.reflection = true;
    server_options_.security.tls = authority_.Issue("supervisor", rpc::kSupervisorName);
    server_options_.security.token_file = absl::StrCat(folder_.path(), "/tokens.json");
    server_options_.security.audit_log = absl::StrCat(folder_.path(), "/audit.jsonl");
    // Of namespace "default", which the fixture's calls use, and of "a".
    user_ = AddToken("user", security::Role::kUser, {"a", "default"});
    operator_ = AddToken("operator", security::Role::kOperator, {});
    admin_ = AddToken("admin", security::Role::kAdmin, {});
  }

  void SetUp() override { StartSecurely(); }
  void TearDown() override {
    StopSecurely();
    ClusterTest::TearDown();
  }

  void StartSecurely() {
    options_.api_tokens = std::make_shared<ApiTokens>();
    auto guard = security::MakeGuard(server_options_.security, &clock_, {.jobs = options_.api_tokens});
    ASSERT_TRUE(guard.ok()) << guard.status();
    server_options_.guard = options_.guard = *guard;
    auto supervisor = Supervisor::Create(options_, MakeStore(), &clock_);
    ASSERT_TRUE(supervisor.ok()) << supervisor.status();
    supervisor_ = *std::move(supervisor);
    auto server = service::Server::Start(server_options_, supervisor_->services());
    ASSERT_TRUE(server.ok()) << server.status();
    secure_server_ = *std::move(server);
    channel_ = Service("worker");
    jobs_ = v1::JobService::NewStub(Person(admin_));
    nodes_ = v1::NodeService::NewStub(Person(admin_));
    replicas_ = v1::ReplicaService::NewStub(Person(""));
    scheduling_ = v1::SchedulingService::NewStub(Service("allocator"));
    quotas_ = v1::QuotaService::NewStub(Person(admin_));
  }
  void StopSecurely() {
    if (supervisor_ != nullptr) supervisor_->EndStreams();
    secure_server_ = nullptr;
  }

  std::string AddToken(const std::string& name, security::Role role, std::vector<std::string> namespaces,
                       absl::Duration lifetime = absl::InfiniteDuration()) {
    const absl::StatusOr<std::string> token = security::CreateToken(
        server_options_.security.token_file,
        {.name = name, .role = role, .namespaces = std::move(namespaces), .lifetime = lifetime}, clock_);
    EXPECT_TRUE(token.ok()) << token.status();
    // Noticed at the next call.
    clock_.Advance(absl::Seconds(1));
    return token.value_or("");
  }

  std::shared_ptr<grpc::Channel> Open(const rpc::TlsFiles& tls, const std::string& token) const {
    rpc::ClientSecurity security;
    security.tls = tls;
    security.token = token;
    security.server_name = rpc::kSupervisorName;
    return rpc::CreateChannel(secure_server_->address(), security);
  }
  // Somebody with a token, or without any.
  std::shared_ptr<grpc::Channel> Person(const std::string& token) const {
    rpc::TlsFiles tls;
    tls.ca = authority_.CaFile();
    return Open(tls, token);
  }
  // A service with a certificate for "spiffe://adaptdl/path".
  std::shared_ptr<grpc::Channel> Service(const std::string& path) { return Open(authority_.Issue(path), ""); }

  // Somebody of each role.
  std::map<security::Role, std::shared_ptr<grpc::Channel>> Everybody() {
    using security::Role;
    return {{Role::kUser, Person(user_)},
            {Role::kOperator, Person(operator_)},
            {Role::kAdmin, Person(admin_)},
            {Role::kWorker, Service("worker")},
            {Role::kAllocator, Service("allocator")},
            {Role::kAutoscaler, Service("autoscaler")},
            {Role::kSupervisor, Service("supervisor")}};
  }

  // Calls any method, whatever it streams, with one message. OK as soon as one comes back.
  static grpc::Status Call(const std::shared_ptr<grpc::Channel>& channel, absl::string_view method,
                           const std::string& request = "", const std::string& bearer = "") {
    grpc::ClientContext context;
    SetDeadline(&context);
    if (!bearer.empty()) context.AddMetadata("authorization", absl::StrCat("Bearer ", bearer));
    grpc::CompletionQueue queue;
    grpc::GenericStub stub(channel);
    const auto next = [&queue] {
      void* tag;
      bool ok = false;
      EXPECT_TRUE(queue.Next(&tag, &ok));
      return ok;
    };
    auto call = stub.PrepareCall(&context, std::string(method), &queue);
    call->StartCall(nullptr);
    if (next()) {
      const grpc::Slice slice(request);
      call->WriteLast(grpc::ByteBuffer(&slice, 1), grpc::WriteOptions(), nullptr);
      next();
    }
    grpc::ByteBuffer response;
    call->Read(&response, nullptr);
    const bool answered = next();
    if (answered) context.TryCancel();
    grpc::Status status;
    call->Finish(&status, nullptr);
    next();
    return answered ? grpc::Status::OK : status;
  }
  static bool IsRefusal(const grpc::Status& status) {
    return status.error_code() == grpc::StatusCode::UNAUTHENTICATED ||
           status.error_code() == grpc::StatusCode::PERMISSION_DENIED;
  }

  std::vector<nlohmann::json> AuditRecords() const {
    std::vector<nlohmann::json> records;
    for (const absl::string_view line :
         absl::StrSplit(*ReadWholeFile(server_options_.security.audit_log), '\n', absl::SkipEmpty())) {
      records.push_back(nlohmann::json::parse(line));
    }
    return records;
  }

  TemporaryFolder folder_;
  security::TestAuthority authority_;
  service::ServerOptions server_options_;
  std::string user_, operator_, admin_;
  std::unique_ptr<service::Server> secure_server_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_TESTS_SERVICES_SUPERVISOR_SECURE_CLUSTER_FIXTURE_H_
