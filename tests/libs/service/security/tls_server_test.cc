#include <sys/socket.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/clock.h"
#include "libs/base/file.h"
#include "libs/rpc/channel.h"
#include "libs/rpc/security.h"
#include "libs/service/lean_connections.h"
#include "libs/service/security/token_file.h"
#include "libs/service/server.h"
#include "nlohmann/json.hpp"
#include "tests/libs/service/security/test_certificates.h"
#include "tests/libs/service/server_fixture.h"

namespace adaptdl::service {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

class TlsServerTest : public ServerTest {
 protected:
  TlsServerTest() : authority_(folder_, "ours") {
    UseLeanConnections();
    options_.security = {};
    options_.security.tls = authority_.Issue("supervisor", rpc::kSupervisorName);
    options_.security.token_file = absl::StrCat(folder_, "/tokens.json");
    options_.security.audit_log = absl::StrCat(folder_, "/audit.jsonl");
    admin_ = Token("root", security::Role::kAdmin, {});
  }

  std::string Token(const std::string& name, security::Role role, std::vector<std::string> namespaces) {
    const absl::StatusOr<std::string> token =
        security::CreateToken(options_.security.token_file,
                              {.name = name, .role = role, .namespaces = std::move(namespaces)}, clock_);
    EXPECT_TRUE(token.ok()) << token.status();
    return token.value_or("");
  }

  rpc::ClientSecurity Client(const std::string& token, const rpc::TlsFiles& tls) const {
    rpc::ClientSecurity security;
    security.tls = tls;
    security.token = token;
    security.server_name = rpc::kSupervisorName;
    return security;
  }
  rpc::ClientSecurity WithToken(const std::string& token) const {
    rpc::TlsFiles tls;
    tls.ca = authority_.CaFile();
    return Client(token, tls);
  }

  void Connect(const rpc::ClientSecurity& security) {
    channel_ = rpc::CreateChannel(server_->address(), security);
    stub_ = v1::NodeService::NewStub(channel_);
  }

  grpc::StatusCode CodeWith(const rpc::ClientSecurity& security) {
    Connect(security);
    return ListNodes().error_code();
  }

  std::vector<nlohmann::json> AuditRecords() const {
    std::vector<nlohmann::json> records;
    for (const absl::string_view line :
         absl::StrSplit(*ReadWholeFile(options_.security.audit_log), '\n', absl::SkipEmpty())) {
      records.push_back(nlohmann::json::parse(line));
    }
    return records;
  }

  const RealClock clock_;
  security::TestAuthority authority_;
  std::string admin_;
};

TEST_F(TlsServerTest, ServesWhoeverHasATokenOrACertificate) {
  Start();
  EXPECT_EQ(CodeWith(WithToken(admin_)), grpc::StatusCode::OK);
  EXPECT_EQ(CodeWith(Client("", authority_.Issue("allocator"))), grpc::StatusCode::OK);
}

TEST_F(TlsServerTest, CarriesLargeMessagesBothWays) {
  Start();
  Connect(WithToken(admin_));
  // Of many records of TLS, and of none that is full.
  for (const int size : {1, 2000, 2048, 5000, 17 * 1024, 3'000'001}) {
    v1::ListNodesRequest request;
    for (int i = 0; i < size; ++i) request.mutable_page_token()->push_back(static_cast<char>('a' + i % 23));
    grpc::ClientContext context;
    rpc::SetTimeout(&context, absl::Seconds(30));
    v1::ListNodesResponse response;
    const grpc::Status status = stub_->ListNodes(&context, request, &response);
    ASSERT_TRUE(status.ok()) << size << ": " << status.error_message();
    EXPECT_TRUE(response.next_page_token() == request.page_token()) << size;
  }
}

TEST_F(TlsServerTest, RefusesWhoeverHasNeither) {
  Start();
  EXPECT_EQ(CodeWith(WithToken("")), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(CodeWith(WithToken("adaptdl_wrong")), grpc::StatusCode::UNAUTHENTICATED);
  Connect(WithToken(""));
  EXPECT_EQ(Health(""), 1) << "health is public";
}

TEST_F(TlsServerTest, RefusesARoleThatMayNot) {
  const std::string user = Token("ci", security::Role::kUser, {"vision"});
  Start();
  Connect(WithToken(user));
  EXPECT_EQ(ListNodes().error_code(), grpc::StatusCode::OK);
  const grpc::Status status = RemoveNode();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(status.error_message(), HasSubstr("token \"ci\" with role user"));
  Connect(WithToken(admin_));
  EXPECT_EQ(RemoveNode().error_code(), grpc::StatusCode::NOT_FOUND) << "it reached the handler";
}

TEST_F(TlsServerTest, ShakesHandsWithNobodyOfAnotherAuthority) {
  Start();
  security::TestAuthority other(folder_, "other");
  // The client does not trust the server.
  rpc::TlsFiles tls;
  tls.ca = other.CaFile();
  EXPECT_EQ(CodeWith(Client(admin_, tls)), grpc::StatusCode::UNAVAILABLE);
  // The server does not trust the client.
  tls = other.Issue("supervisor");
  tls.ca = authority_.CaFile();
  EXPECT_EQ(CodeWith(Client("", tls)), grpc::StatusCode::UNAVAILABLE);
  // The certificate is ours, and over.
  EXPECT_EQ(CodeWith(Client("", authority_.Issue("allocator", rpc::kAllocatorName, -absl::Minutes(1)))),
            grpc::StatusCode::UNAVAILABLE);
  // The server is not the one that the client looks for.
  rpc::ClientSecurity wrong_name = WithToken(admin_);
  wrong_name.server_name = rpc::kAllocatorName;
  EXPECT_EQ(CodeWith(wrong_name), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(TlsServerTest, DoesNotMixTlsAndPlaintext) {
  Start();
  EXPECT_EQ(CodeWith(rpc::Plaintext()), grpc::StatusCode::UNAVAILABLE);
  server_.reset();
  options_.security = {};
  options_.security.insecure = true;
  Start();
  EXPECT_EQ(CodeWith(WithToken(admin_)), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(CodeWith(rpc::Plaintext()), grpc::StatusCode::OK);
}

TEST_F(TlsServerTest, UsesACertificateThatReplacesTheFirst) {
  // Clients that trust the new authority only can connect once the server has its new files.
  security::TestAuthority next(folder_, "next");
  const rpc::TlsFiles renewed = next.Issue("supervisor", rpc::kSupervisorName);
  Start();
  rpc::TlsFiles trusts_next;
  trusts_next.ca = next.CaFile();
  EXPECT_EQ(CodeWith(Client(admin_, trusts_next)), grpc::StatusCode::UNAVAILABLE);
  const auto replace = [](const std::string& from, const std::string& to) {
    ASSERT_TRUE(WriteFileAtomically(to, *ReadWholeFile(from), 0600).ok());
  };
  replace(renewed.key, options_.security.tls.key);
  replace(renewed.certificate, options_.security.tls.certificate);
  const absl::Time limit = absl::Now() + absl::Seconds(30);
  grpc::StatusCode code = grpc::StatusCode::UNAVAILABLE;
  while (code != grpc::StatusCode::OK && absl::Now() < limit) code = CodeWith(Client(admin_, trusts_next));
  EXPECT_EQ(code, grpc::StatusCode::OK);
}

TEST_F(TlsServerTest, NotesWhatWasChangedAndWhoWasRefused) {
  Start();
  Connect(WithToken(admin_));
  grpc::ClientContext context;
  rpc::SetTimeout(&context, absl::Seconds(10));
  v1::RemoveNodeRequest request;
  request.set_node_id("node-1");
  request.set_request_id("r1");
  v1::RemoveNodeResponse response;
  EXPECT_EQ(stub_->RemoveNode(&context, request, &response).error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(ListNodes().error_code(), grpc::StatusCode::OK);
  EXPECT_EQ(CodeWith(WithToken("adaptdl_wrong")), grpc::StatusCode::UNAUTHENTICATED);
  server_.reset();  // All calls are over.
  const std::vector<nlohmann::json> records = AuditRecords();
  ASSERT_THAT(records, SizeIs(2));
  for (const nlohmann::json& record : records) {
    if (record["code"] == "UNAUTHENTICATED") {
      EXPECT_EQ(record["method"], "/adaptdl.v1.NodeService/ListNodes");
      EXPECT_FALSE(record.contains("caller"));
      continue;
    }
    EXPECT_EQ(record["code"], "NOT_FOUND");
    EXPECT_EQ(record["caller"], "token \"root\"");
    EXPECT_EQ(record["role"], "admin");
    EXPECT_EQ(record["node"], "node-1");
    EXPECT_EQ(record["request_id"], "r1");
    EXPECT_THAT(record["peer"].get<std::string>(), HasSubstr("127.0.0.1"));
  }
  EXPECT_THAT(*ReadWholeFile(options_.security.audit_log), Not(HasSubstr("adaptdl_")));
}

TEST_F(TlsServerTest, SaysWhichFlagsAreMissingOrContradictEachOther) {
  const auto refusal = [this](const security::SecurityOptions& security, const std::string& listen) {
    const absl::Status status = security::CheckSecurity(security, listen);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  const std::string loopback = "127.0.0.1:0", everywhere = "0.0.0.0:0";
  EXPECT_TRUE(security::CheckSecurity(options_.security, everywhere).ok());
  EXPECT_THAT(refusal({}, loopback), HasSubstr("adaptdl admin certificates"));
  security::SecurityOptions half = options_.security;
  half.tls.key = "";
  EXPECT_THAT(refusal(half, loopback), HasSubstr("--tls-key"));
  security::SecurityOptions missing = options_.security;
  missing.tls.certificate = absl::StrCat(folder_, "/none.pem");
  EXPECT_THAT(refusal(missing, loopback), HasSubstr("none.pem"));
  security::SecurityOptions mixed = options_.security;
  mixed.tls.key = authority_.Issue("worker").key;
  refusal(mixed, loopback);

  security::SecurityOptions plain;
  plain.insecure = true;
  for (const char* listen : {"127.0.0.1:0", "127.9.9.9:0", "localhost:0", "[::1]:0"}) {
    EXPECT_TRUE(security::CheckSecurity(plain, listen).ok()) << listen;
  }
  for (const char* listen : {"0.0.0.0:0", "[::]:0", "10.0.0.1:0", "node-1:0", "127.0.0.1.example.org:0"}) {
    EXPECT_THAT(refusal(plain, listen), HasSubstr("--insecure-anywhere")) << listen;
  }
  security::SecurityOptions anywhere = plain;
  anywhere.insecure_anywhere = true;
  EXPECT_TRUE(security::CheckSecurity(anywhere, everywhere).ok());
  anywhere.insecure = false;
  EXPECT_THAT(refusal(anywhere, loopback), HasSubstr("--insecure"));
  security::SecurityOptions both = options_.security;
  both.insecure = true;
  refusal(both, loopback);
  security::SecurityOptions tokens = plain;
  tokens.token_file = options_.security.token_file;
  EXPECT_THAT(refusal(tokens, loopback), HasSubstr("--token-file"));
  security::SecurityOptions keys = options_.security;
  keys.jwks_file = "jwks.json";
  EXPECT_THAT(refusal(keys, loopback), HasSubstr("--jwt-issuer"));
}

}  // namespace
}  // namespace adaptdl::service
