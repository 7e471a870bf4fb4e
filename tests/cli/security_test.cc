// The real program: certificates and tokens that it makes, and how it proves who it is to a server with TLS.

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "adaptdl/v1/admin_service.grpc.pb.h"
#include "gmock/gmock.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"
#include "libs/base/clock.h"
#include "libs/service/security/token_file.h"
#include "nlohmann/json.hpp"
#include "tests/cli/program.h"

namespace adaptdl::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

class SecurityTest : public testing::Test {
 protected:
  ProgramResult Run(const std::vector<std::string>& arguments,
                    const std::vector<std::string>& environment = {}) {
    return RunProgram(folder_.path(), arguments, environment);
  }
  std::string Path(const std::string& file) const { return absl::StrCat(folder_.path(), "/", file); }

  TemporaryFolder folder_;
};

TEST_F(SecurityTest, MakesCertificatesOnceAndShowsThem) {
  const ProgramResult made = Run({"admin", "certificates", "--out", "tls"});
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("tls/supervisor/cert.pem   spiffe://adaptdl/supervisor"));
  const std::string certificate = folder_.Read("tls/supervisor/cert.pem");
  EXPECT_THAT(certificate, StartsWith("-----BEGIN CERTIFICATE-----"));
  const auto again =
      nlohmann::json::parse(Run({"admin", "certificates", "--out", "tls", "-o", "json"}).out)["certificates"];
  ASSERT_THAT(again, SizeIs(5));
  for (const auto& entry : again) EXPECT_EQ(entry["action"], "kept") << entry;
  EXPECT_EQ(folder_.Read("tls/supervisor/cert.pem"), certificate);
}

TEST_F(SecurityTest, MakesCertificatesOfSomeServicesAndNodes) {
  EXPECT_EQ(
      Run({"admin", "certificates", "--out", "tls", "--service", "allocator", "--node", "n1", "--node", "n2"})
          .code,
      0);
  EXPECT_THAT(folder_.Read("tls/worker-n2/cert.pem"), Not(IsEmpty()));
  EXPECT_THAT(folder_.Read("tls/supervisor/cert.pem"), IsEmpty());
  EXPECT_EQ(Run({"admin", "certificates", "--out", "tls", "--service", "scheduler"}).code, 2);
  EXPECT_EQ(Run({"admin", "certificates", "--out", "tls", "--node", "a/b"}).code, 2);
}

TEST_F(SecurityTest, TellsThatCertificatesNearTheirEnd) {
  const std::vector<std::string> check = {"admin", "certificates", "--out", "tls", "--check"};
  const ProgramResult missing = Run(check);
  EXPECT_EQ(missing.code, 1);
  EXPECT_THAT(missing.out, HasSubstr("missing"));
  ASSERT_EQ(Run({"admin", "certificates", "--out", "tls", "--days", "30"}).code, 0);
  EXPECT_EQ(Run(check).code, 0);
}

TEST_F(SecurityTest, PrintsTheSecretsOfAKubernetesCluster) {
  const std::vector<std::string> command = {"admin", "kubernetes-secrets", "--keys", "keys", "-o", "json"};
  const ProgramResult made = Run(command);
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.err, HasSubstr("new authority"));
  const nlohmann::json list = nlohmann::json::parse(made.out);
  std::map<std::string, nlohmann::json> objects;
  for (const auto& object : list["items"]) {
    EXPECT_EQ(object["metadata"]["namespace"], "adaptdl");
    objects[object["metadata"]["name"]] = object;
  }
  const auto content = [&](const std::string& secret, const std::string& file) {
    std::string text;
    EXPECT_TRUE(absl::Base64Unescape(objects[secret]["data"][file].get<std::string>(), &text));
    return text;
  };
  for (const std::string service : {"supervisor", "allocator", "autoscaler", "webhook"}) {
    const std::string secret = absl::StrCat("adaptdl-", service, "-tls");
    EXPECT_EQ(objects[secret]["type"], "kubernetes.io/tls");
    EXPECT_EQ(content(secret, "tls.crt"), folder_.Read(absl::StrCat("keys/", service, "/cert.pem")));
    EXPECT_EQ(content(secret, "tls.key"), folder_.Read(absl::StrCat("keys/", service, "/key.pem")));
    EXPECT_EQ(content(secret, "ca.crt"), folder_.Read("keys/ca.pem"));
  }
  EXPECT_EQ(content("adaptdl-group-key", "key"), folder_.Read("keys/group.key"));
  EXPECT_THAT(content("adaptdl-group-key", "key"), SizeIs(64));
  EXPECT_EQ(objects["adaptdl-group-key"]["immutable"], true);
  EXPECT_EQ(objects["adaptdl-ca"]["data"]["ca.crt"], folder_.Read("keys/ca.pem"));
  // Again: the same.
  const ProgramResult again = Run(command);
  EXPECT_EQ(again.out, made.out);
  EXPECT_THAT(again.err, IsEmpty());
}

TEST_F(SecurityTest, PrintsWhoSignedTheWebhooksCertificate) {
  const ProgramResult made = Run({"admin", "kubernetes-secrets", "--keys", "keys", "--webhook-patch"});
  ASSERT_EQ(made.code, 0) << made.err;
  const nlohmann::json patch = nlohmann::json::parse(made.out);
  EXPECT_EQ(patch[0]["path"], "/webhooks/0/clientConfig/caBundle");
  std::string ca;
  ASSERT_TRUE(absl::Base64Unescape(patch[0]["value"].get<std::string>(), &ca));
  EXPECT_EQ(ca, folder_.Read("keys/ca.pem"));
}

TEST_F(SecurityTest, RenewsSecretsOnlyWithTheirAuthority) {
  ASSERT_EQ(Run({"admin", "kubernetes-secrets", "--keys", "keys"}).code, 0);
  std::filesystem::remove(Path("keys/ca.key"));
  const ProgramResult refused = Run({"admin", "kubernetes-secrets", "--keys", "keys"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.out, IsEmpty());
  EXPECT_THAT(refused.err, HasSubstr("put its files ca.pem and ca.key back"));
  EXPECT_EQ(Run({"admin", "kubernetes-secrets", "--keys", "other", "--namespace", "a,b"}).code, 2);
}

TEST_F(SecurityTest, MakesListsAndRevokesTokens) {
  const ProgramResult created =
      Run({"admin", "token", "create", "--file", "tokens.json", "--name", "ci", "--role", "user",
           "--namespace", "vision", "--namespace", "text", "--expires", "90d"});
  ASSERT_EQ(created.code, 0) << created.err;
  EXPECT_THAT(created.out, StartsWith("adaptdl_"));
  const std::string token(absl::StripSuffix(created.out, "\n"));
  EXPECT_THAT(token, SizeIs(51));  // and nothing else goes to standard output
  EXPECT_THAT(folder_.Read("tokens.json"), Not(HasSubstr(token)));

  const security::TokenTable table(security::ReadTokenFile(Path("tokens.json")).value());
  const security::Token* found = table.Find(token, absl::Now());
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->name, "ci");
  EXPECT_THAT(found->namespaces, SizeIs(2));
  EXPECT_EQ(table.Find(token, absl::Now() + absl::Hours(24 * 91)), nullptr);

  const ProgramResult listed = Run({"admin", "token", "list", "--file", "tokens.json"});
  EXPECT_THAT(listed.out, HasSubstr("ci     user   vision,text"));
  EXPECT_THAT(listed.out, Not(HasSubstr("adaptdl_")));
  EXPECT_EQ(Run({"admin", "token", "revoke", "--file", "tokens.json", "--name", "ci"}).code, 0);
  EXPECT_EQ(Run({"admin", "token", "revoke", "--file", "tokens.json", "--name", "ci"}).code, 1);
  EXPECT_THAT(security::ReadTokenFile(Path("tokens.json")).value(), IsEmpty());
}

TEST_F(SecurityTest, RefusesTokensThatMakeNoSense) {
  const std::vector<std::string> create = {"admin", "token", "create", "--file", "tokens.json", "--name"};
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{"ci", "--role", "king"},
                                             {"ci", "--role", "user"},
                                             {"c i", "--role", "admin"},
                                             {"ci", "--role", "admin", "--expires", "soon"},
                                             {"ci", "--role", "admin", "--expires", "-1d"}}) {
    std::vector<std::string> arguments = create;
    arguments.insert(arguments.end(), more.begin(), more.end());
    EXPECT_EQ(Run(arguments).code, 2) << more.back();
  }
  EXPECT_THAT(folder_.Read("tokens.json"), IsEmpty());
}

// A server with TLS that says who called.
class WhoAmIService final : public v1::AdminService::Service {
  grpc::Status WhoAmI(grpc::ServerContext* context, const v1::WhoAmIRequest*,
                      v1::WhoAmIResponse* response) override {
    const auto token = context->client_metadata().find("authorization");
    if (token == context->client_metadata().end()) return {grpc::StatusCode::UNAUTHENTICATED, "give a token"};
    response->set_name(std::string(token->second.data(), token->second.size()));
    response->set_role("user");
    response->add_namespaces("vision");
    return grpc::Status::OK;
  }
};

class TlsServerTest : public SecurityTest {
 protected:
  TlsServerTest() {
    EXPECT_EQ(Run({"admin", "certificates", "--out", "tls"}).code, 0);
    grpc::EnableDefaultHealthCheckService(true);
    grpc::SslServerCredentialsOptions options;
    options.pem_key_cert_pairs = {
        {folder_.Read("tls/supervisor/key.pem"), folder_.Read("tls/supervisor/cert.pem")}};
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::SslServerCredentials(options), &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    address_ = absl::StrCat("127.0.0.1:", port);
  }
  ~TlsServerTest() override { server_->Shutdown(); }

  WhoAmIService service_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

TEST_F(TlsServerTest, ProvesWhoItIsByFlagsOrEnvironment) {
  const std::string file = folder_.Write("token", "  secret-1\n");
  const std::string ca = Path("tls/ca.pem");
  EXPECT_EQ(Run({"whoami", "--supervisor", address_, "--ca", ca, "--token-file", file}).out,
            "Bearer secret-1: user, namespaces vision\n");
  const std::vector<std::string> environment = {"ADAPTDL_SUPERVISOR_ADDRESS=" + address_,
                                                "ADAPTDL_CA_FILE=" + ca, "ADAPTDL_TOKEN_FILE=" + file};
  EXPECT_THAT(Run({"whoami"}, environment).out, HasSubstr("secret-1"));
  std::vector<std::string> direct = environment;
  direct.push_back("ADAPTDL_TOKEN=secret-2");
  EXPECT_THAT(Run({"whoami"}, direct).out, HasSubstr("secret-2"));
  EXPECT_THAT(Run({"whoami", "--token-file", file}, direct).out, HasSubstr("secret-1"));
  EXPECT_EQ(Run({"health", address_}, environment).out, "SERVING\n");
  EXPECT_THAT(Run({"whoami", "--supervisor", address_, "--ca", ca}).err, HasSubstr("give a token"));
}

TEST_F(TlsServerTest, GivesTheLocalClustersTokenToTheLocalClusterOnly) {
  folder_.Write("token", "secret-1");
  folder_.Write(".adaptdl/cluster.json",
                absl::StrCat("{\"supervisor\": \"", address_, "\", \"caFile\": \"", Path("tls/ca.pem"),
                             "\", \"tokenFile\": \"", Path("token"), "\"}"));
  EXPECT_THAT(Run({"whoami"}).out, HasSubstr("secret-1"));
  folder_.Write(".adaptdl/cluster.json",
                absl::StrCat("{\"supervisor\": \"127.0.0.1:1\", \"caFile\": \"", Path("tls/ca.pem"),
                             "\", \"tokenFile\": \"", Path("token"), "\"}"));
  const ProgramResult other = Run({"whoami", "--supervisor", address_, "--ca", Path("tls/ca.pem")});
  EXPECT_EQ(other.code, 1);
  EXPECT_THAT(other.err, HasSubstr("give a token"));
}

TEST_F(TlsServerTest, TrustsNobodyByItself) {
  const ProgramResult nothing = Run({"whoami", "--supervisor", address_});
  EXPECT_EQ(nothing.code, 1);
  EXPECT_THAT(nothing.err, HasSubstr("give the cluster's CA by --ca"));
  ASSERT_EQ(Run({"admin", "certificates", "--out", "other"}).code, 0);
  const ProgramResult wrong = Run({"whoami", "--supervisor", address_, "--ca", Path("other/ca.pem")});
  EXPECT_EQ(wrong.code, 1);
  EXPECT_THAT(wrong.err, HasSubstr("unreachable"));
  EXPECT_EQ(Run({"whoami", "--supervisor", address_, "--insecure"}).code, 1);
  const ProgramResult missing = Run({"whoami", "--supervisor", address_, "--ca", Path("none.pem")});
  EXPECT_THAT(missing.err, HasSubstr("none.pem"));
  folder_.Write("two", "one\ntwo");
  EXPECT_THAT(
      Run({"whoami", "--supervisor", address_, "--ca", Path("tls/ca.pem"), "--token-file", "two"}).err,
      HasSubstr("a token and nothing else"));
}

}  // namespace
}  // namespace adaptdl::cli
