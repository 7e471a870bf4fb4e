// The HTTP server with TLS, and one that takes the place of another on the same address.

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/http/http_client.h"
#include "libs/httpd/http_server.h"
#include "tests/libs/http/test_identity.h"

namespace adaptdl::httpd {
namespace {

using ::testing::HasSubstr;

class HttpTlsTest : public testing::Test {
 protected:
  void SetUp() override {
    options_.listen = "127.0.0.1:0";
    options_.tls_certificate = identity_.certificate_pem;
    options_.tls_key = identity_.key_pem;
    options_.shares_address = true;
  }

  absl::StatusOr<std::unique_ptr<HttpServer>> Serve(const std::string& answer) {
    return HttpServer::Start(options_, [answer](const HttpRequest&, std::shared_ptr<HttpExchange> exchange) {
      exchange->Answer({200, "text/plain", answer});
    });
  }

  absl::StatusOr<adaptdl::HttpResponse> Get(int port, const std::string& ca) const {
    return adaptdl::HttpClient().Send({.url = absl::StrCat("https://supervisor.adaptdl:", port, "/"),
                                       .connect_to = absl::StrCat("127.0.0.1:", port),
                                       .tls = {.ca_pem = ca}});
  }

  const TestIdentity identity_ = MakeTestIdentity("supervisor");
  HttpServerOptions options_;
};

TEST_F(HttpTlsTest, IsKnownByItsCertificate) {
  const auto server = Serve("hello");
  ASSERT_TRUE(server.ok()) << server.status();
  const auto answer = Get((*server)->port(), identity_.ca_pem);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->body, "hello");
  EXPECT_EQ(Get((*server)->port(), "").status().code(), absl::StatusCode::kUnauthenticated);
}

TEST_F(HttpTlsTest, ASuccessorTakesOver) {
  auto former = Serve("former");
  ASSERT_TRUE(former.ok()) << former.status();
  options_.listen = (*former)->address();
  const auto successor = Serve("successor");
  ASSERT_TRUE(successor.ok()) << successor.status();
  former->reset();
  const auto answer = Get((*successor)->port(), identity_.ca_pem);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->body, "successor");
}

TEST_F(HttpTlsTest, RefusesWhatIsNoCertificate) {
  options_.tls_key = "no key";
  const absl::Status status = Serve("hello").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("look at the certificate and its key"));
}

}  // namespace
}  // namespace adaptdl::httpd
