// /metrics/jobs over HTTPS, by people of every kind: nobody learns of jobs in namespaces of others.

#include "services/supervisor/web/web_server.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/http/http_client.h"
#include "tests/services/supervisor/secure_cluster_fixture.h"

namespace adaptdl::supervisor {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class WebServerTest : public SecureClusterTest {
 protected:
  void SetUp() override {
    StartSecurely();
    WebOptions options;
    options.listen = "127.0.0.1:0";
    options.certificate = {server_options_.security.tls.certificate, server_options_.security.tls.key};
    const absl::Status status = supervisor_->ServeWeb(options);
    ASSERT_TRUE(status.ok()) << status;
    for (const char* name_space : {"a", "b", "default"}) {
      grpc::ClientContext context;
      SetDeadline(&context);
      v1::SubmitJobRequest request;
      *request.mutable_job() = NewJob(absl::StrCat("of-", name_space));
      request.mutable_job()->set_namespace_(name_space);
      request.set_request_id(name_space);
      v1::SubmitJobResponse response;
      const grpc::Status submitted = jobs_->SubmitJob(&context, request, &response);
      ASSERT_TRUE(submitted.ok()) << submitted.error_message();
    }
  }

  HttpResponse Get(const std::string& token, const std::string& query = "",
                   const std::string& method = "GET") {
    HttpRequest request;
    request.method = method;
    request.url = absl::StrCat("https://", rpc::kSupervisorName, "/metrics/jobs", query);
    request.connect_to = supervisor_->web_address();
    request.direct = true;
    request.tls.ca_pem = *ReadWholeFile(authority_.CaFile());
    if (!token.empty()) request.headers = {absl::StrCat("Authorization: Bearer ", token)};
    const absl::StatusOr<HttpResponse> response = http_.Send(request);
    EXPECT_TRUE(response.ok()) << response.status();
    return response.value_or(HttpResponse());
  }

  HttpClient http_;
};

TEST_F(WebServerTest, EachSeesItsNamespaces) {
  const HttpResponse all = Get(admin_);
  EXPECT_EQ(all.status, 200);
  EXPECT_THAT(all.headers.at("content-type"), HasSubstr("version=0.0.4"));
  EXPECT_THAT(all.body,
              AllOf(HasSubstr("job=\"of-a\""), HasSubstr("job=\"of-b\""), HasSubstr("job=\"of-default\"")));
  EXPECT_THAT(Get(operator_).body, HasSubstr("job=\"of-b\""));
  const HttpResponse own = Get(user_);
  EXPECT_EQ(own.status, 200);
  EXPECT_THAT(own.body,
              AllOf(HasSubstr("job=\"of-a\""), HasSubstr("job=\"of-default\""), Not(HasSubstr("of-b"))));
  EXPECT_THAT(Get(user_, "?namespace=a").body, AllOf(HasSubstr("of-a"), Not(HasSubstr("of-default"))));
}

TEST_F(WebServerTest, OthersLearnNothing) {
  for (const HttpResponse& refused : {Get(""), Get("guessed"), Get(user_, "?namespace=b"),
                                      Get(user_, "?namespace=nobodys"), Get(user_, "?namespace=*")}) {
    EXPECT_TRUE(refused.status == 401 || refused.status == 403) << refused.status;
    EXPECT_THAT(refused.body, Not(HasSubstr("of-")));
  }
  EXPECT_EQ(Get("").headers.at("www-authenticate"), "Bearer");
  // Whether there is anything in a namespace of others does not show.
  EXPECT_EQ(absl::StrReplaceAll(Get(user_, "?namespace=b").body, {{"\"b\"", "\"nobodys\""}}),
            Get(user_, "?namespace=nobodys").body);
  EXPECT_EQ(Get(admin_, "", "DELETE").status, 405);
}

TEST_F(WebServerTest, ARevokedTokenIsNoneAtOnce) {
  EXPECT_EQ(Get(user_).status, 200);
  ASSERT_TRUE(security::RevokeToken(server_options_.security.token_file, "user").ok());
  EXPECT_EQ(Get(user_).status, 401);
}

}  // namespace
}  // namespace adaptdl::supervisor
