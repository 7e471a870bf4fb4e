// What a session does with what its access says.

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/kube/client/session.h"
#include "tests/libs/http/test_identity.h"
#include "tests/libs/http/test_server.h"

namespace adaptdl::kube {
namespace {

std::string AuthorizationOf(const ServedRequest& request) {
  const auto found = request.headers.find("authorization");
  return found == request.headers.end() ? "" : found->second;
}

class SessionAccessTest : public ::testing::Test {
 protected:
  Access MakeAccess(ConfiguredCredentials::Options credentials) {
    return {.server = server_.url(),
            .tls_server_name = "supervisor.adaptdl",
            .ca = {.text = supervisor_.ca_pem},
            .credentials = std::make_unique<ConfiguredCredentials>(std::move(credentials))};
  }
  // Who the server takes us for: "COMMON NAME|AUTHORIZATION".
  static absl::StatusOr<std::string> WhoAmI(Access access) {
    const auto session = Session::Create(std::move(access), {.patience = absl::ZeroDuration()});
    EXPECT_TRUE(session.ok()) << session.status();
    return (*session)->Call({.target = Collection(Pods())});
  }

  const TestIdentity supervisor_ = MakeTestIdentity("supervisor");
  const TestIdentity worker_ = MakeTestIdentity("worker");
  const TestServerTls tls_ = {supervisor_.certificate_pem, supervisor_.key_pem, worker_.ca_pem};
  TestServer server_{[](Exchange& exchange) {
                       exchange.Answer(
                           200, absl::StrCat(exchange.peer(), "|", AuthorizationOf(exchange.request())));
                     },
                     &tls_};
};

TEST_F(SessionAccessTest, ShowsAToken) {
  EXPECT_EQ(*WhoAmI(MakeAccess({.bearer_token = {.text = "t"}})), "|Bearer t");
}

TEST_F(SessionAccessTest, ShowsACertificate) {
  const auto who = WhoAmI(
      MakeAccess({.certificate = {.text = worker_.certificate_pem}, .key = {.text = worker_.key_pem}}));
  ASSERT_TRUE(who.ok()) << who.status();
  EXPECT_EQ(*who, worker_.common_name + "|");
}

TEST_F(SessionAccessTest, ShowsAPassword) {
  EXPECT_EQ(*WhoAmI(MakeAccess({.username = "ann", .password = "x:y"})),
            "|Basic " + absl::Base64Escape("ann:x:y"));
}

TEST_F(SessionAccessTest, TheServerHasToBeTheOneThatIsMeant) {
  Access access = MakeAccess({});
  access.tls_server_name = "worker.adaptdl";
  EXPECT_EQ(WhoAmI(std::move(access)).status().code(), absl::StatusCode::kUnauthenticated);
  access = MakeAccess({});
  access.ca.text = worker_.ca_pem;
  EXPECT_EQ(WhoAmI(std::move(access)).status().code(), absl::StatusCode::kUnauthenticated);
  access = MakeAccess({});
  access.ca.text = worker_.ca_pem;
  access.insecure = true;
  EXPECT_TRUE(WhoAmI(std::move(access)).ok());
}

TEST_F(SessionAccessTest, CredentialsThatCannotBeReadAreNoRequest) {
  EXPECT_EQ(WhoAmI(MakeAccess({.bearer_token = {.path = "/dev/null/token"}})).status().code(),
            absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(server_.connections(), 0);
}

}  // namespace
}  // namespace adaptdl::kube
