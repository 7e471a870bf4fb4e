// The dashboard that the supervisor serves, over HTTPS: who has signed in sees what is theirs, and others nothing.

#include "services/supervisor/web/web_dashboard.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/http/http_client.h"
#include "libs/rpc/channel.h"
#include "nlohmann/json.hpp"
#include "services/supervisor/web/web_server.h"
#include "tests/services/supervisor/secure_cluster_fixture.h"

namespace adaptdl::supervisor {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::Not;

// What streams is told from the rest by its first event.
constexpr absl::Duration kUntilFirstEvent = absl::Seconds(2);

class WebDashboardTest : public SecureClusterTest {
 protected:
  void SetUp() override {
    StartSecurely();
    other_ = AddToken("other", security::Role::kUser, {"b"});
    WebOptions options;
    options.listen = "127.0.0.1:0";
    options.certificate = {server_options_.security.tls.certificate, server_options_.security.tls.key};
    options.dashboard = true;
    options.services = Person("");
    const absl::Status status = supervisor_->ServeWeb(options);
    ASSERT_TRUE(status.ok()) << status;
    for (const char* name_space : {"a", "b"}) {
      grpc::ClientContext context;
      SetDeadline(&context);
      v1::SubmitJobRequest request;
      *request.mutable_job() = NewJob(absl::StrCat("secret-of-", name_space));
      request.mutable_job()->set_namespace_(name_space);
      request.set_request_id(name_space);
      v1::SubmitJobResponse response;
      const grpc::Status submitted = jobs_->SubmitJob(&context, request, &response);
      ASSERT_TRUE(submitted.ok()) << submitted.error_message();
    }
  }

  HttpResponse Send(const std::string& method, const std::string& path, std::vector<std::string> headers = {},
                    const std::string& body = "") {
    HttpRequest request;
    request.method = method;
    request.url = absl::StrCat("https://", rpc::kSupervisorName, path);
    request.connect_to = supervisor_->web_address();
    request.direct = true;
    request.tls.ca_pem = *ReadWholeFile(authority_.CaFile());
    request.headers = std::move(headers);
    request.body = body;
    request.timeout = kUntilFirstEvent;
    const absl::StatusOr<HttpResponse> response = http_.Send(request);
    // A stream does not end by itself.
    if (absl::IsDeadlineExceeded(response.status())) return HttpResponse();
    EXPECT_TRUE(response.ok()) << response.status();
    return response.value_or(HttpResponse());
  }
  HttpResponse SignIn(const std::string& token, std::vector<std::string> headers = {}) {
    headers.push_back("Content-Type: application/x-www-form-urlencoded");
    return Send("POST", "/login", std::move(headers), absl::StrCat("token=", token));
  }
  // The header field by which a request is somebody's.
  std::string Cookie(const std::string& token) {
    const HttpResponse response = SignIn(token);
    EXPECT_EQ(response.status, 303) << response.body;
    const std::string cookie = response.headers.at("set-cookie");
    return absl::StrCat("Cookie: ", cookie.substr(0, cookie.find(';')));
  }
  std::string PageToken(const std::string& cookie) {
    const HttpResponse response = Send("GET", "/api/session", {cookie});
    EXPECT_EQ(response.status, 200) << response.body;
    return nlohmann::json::parse(response.body).value("token", "");
  }
  bool IsCancelled(const std::string& name_space) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::GetJobRequest request;
    request.set_namespace_(name_space);
    request.set_name(absl::StrCat("secret-of-", name_space));
    v1::GetJobResponse response;
    EXPECT_TRUE(jobs_->GetJob(&context, request, &response).ok());
    return response.job().status().phase() == v1::JOB_PHASE_CANCELLED;
  }

  // Of namespace "b" alone; user_ is of "a" and "default".
  std::string other_;
  HttpClient http_;
};

TEST_F(WebDashboardTest, PeopleSignInWithTheirTokens) {
  const HttpResponse page = Send("GET", "/");
  EXPECT_EQ(page.status, 200);
  EXPECT_THAT(page.body, HasSubstr("action=\"/login\""));
  EXPECT_THAT(page.headers.at("content-security-policy"),
              AllOf(HasSubstr("default-src 'none'"), HasSubstr("frame-ancestors 'none'")));
  const HttpResponse wrong = SignIn("guessed");
  EXPECT_EQ(wrong.status, 401);
  EXPECT_THAT(wrong.body, HasSubstr("does not know the token"));
  EXPECT_EQ(wrong.headers.count("set-cookie"), 0u);
  const HttpResponse right = SignIn(user_);
  ASSERT_EQ(right.status, 303);
  EXPECT_EQ(right.headers.at("location"), "/");
  EXPECT_THAT(right.headers.at("set-cookie"),
              AllOf(HasSubstr("__Host-"), HasSubstr("; Secure"), HasSubstr("; HttpOnly"),
                    HasSubstr("; SameSite=Strict"), Not(HasSubstr(user_))));
  const std::string cookie = Cookie(user_);
  EXPECT_THAT(Send("GET", "/", {cookie}).body, HasSubstr("app.js"));
  const auto session = nlohmann::json::parse(Send("GET", "/api/session", {cookie}).body);
  EXPECT_EQ(session.value("name", ""), "user");
  EXPECT_EQ(session.value("namespace", ""), "default");
  EXPECT_TRUE(session.value("leaves", false));
  // Who has not the namespace that is wanted begins with one of theirs.
  EXPECT_EQ(nlohmann::json::parse(Send("GET", "/api/session", {Cookie(other_)}).body).value("namespace", ""),
            "b");
}

TEST_F(WebDashboardTest, OfNoEndpointDoOthersLearnAnything) {
  const std::string theirs = Cookie(user_);
  const std::string query = "?namespace=b&name=secret-of-b";
  for (const std::string& endpoint : dashboard::Gateway::Endpoints()) {
    const std::string path = absl::StrCat("/api/", endpoint, query);
    // Not signed in, and with a cookie that nobody was given.
    for (const std::vector<std::string>& headers :
         {std::vector<std::string>{}, {"Cookie: __Host-adaptdl_session=guessed"}, {theirs + "0"}}) {
      const HttpResponse refused = Send("GET", path, headers);
      EXPECT_EQ(refused.status, 401) << endpoint;
      EXPECT_THAT(refused.body, Not(HasSubstr("secret"))) << endpoint;
    }
    // Of another namespace.
    const HttpResponse asked = Send("GET", path, {theirs});
    EXPECT_THAT(asked.body, Not(HasSubstr("secret-of-b"))) << endpoint;
    // Nor that there is nothing.
    const std::string nobodys =
        Send("GET", absl::StrCat("/api/", endpoint, "?namespace=z&name=secret-of-z"), {theirs}).body;
    EXPECT_EQ(absl::StrReplaceAll(asked.body, {{"\\\"b\\\"", "\\\"z\\\""}}), nobodys) << endpoint;
  }
  // What is theirs they do see.
  EXPECT_THAT(Send("GET", "/api/job?namespace=a&name=secret-of-a", {theirs}).body, HasSubstr("secret-of-a"));
  EXPECT_THAT(Send("GET", "/api/job" + query, {Cookie(other_)}).body, HasSubstr("secret-of-b"));
}

TEST_F(WebDashboardTest, OnlyThePagesOwnRequestsChangeAnything) {
  const std::string cookie = Cookie(user_);
  const std::string token = absl::StrCat("X-Adaptdl-Token: ", PageToken(cookie));
  const std::string others = absl::StrCat("X-Adaptdl-Token: ", PageToken(Cookie(user_)));
  const std::string cancel = "/api/cancel?namespace=a&name=secret-of-a";
  for (const std::vector<std::string>& headers : {
           std::vector<std::string>{},
           {token},
           {cookie},
           {cookie, "X-Adaptdl-Token: guessed"},
           {cookie, others},  // of another session
           {cookie, token, "Sec-Fetch-Site: cross-site"},
       }) {
    EXPECT_THAT(Send("POST", cancel, headers).status, AnyOf(Eq(401), Eq(403)));
  }
  EXPECT_EQ(Send("GET", cancel, {cookie, token}).status, 404);
  EXPECT_FALSE(IsCancelled("a"));
  EXPECT_EQ(Send("POST", "/api/cancel?namespace=b&name=secret-of-b", {cookie, token}).status, 403);
  EXPECT_FALSE(IsCancelled("b"));
  EXPECT_EQ(Send("POST", cancel, {cookie, token, "Sec-Fetch-Site: same-origin"}).status, 200);
  EXPECT_TRUE(IsCancelled("a"));
  // Nobody is signed in, or out, by another site.
  EXPECT_EQ(SignIn(user_, {"Sec-Fetch-Site: cross-site"}).status, 403);
  EXPECT_EQ(Send("POST", "/logout", {cookie}).status, 403);
  EXPECT_EQ(Send("GET", "/api/session", {cookie}).status, 200);
}

TEST_F(WebDashboardTest, ASessionEndsWithItsOwnerAndWithTheToken) {
  const std::string first = Cookie(user_);
  const std::string second = Cookie(user_);
  EXPECT_EQ(Send("POST", "/logout", {first, absl::StrCat("X-Adaptdl-Token: ", PageToken(first))}).status,
            303);
  EXPECT_EQ(Send("GET", "/api/session", {first}).status, 401);
  EXPECT_EQ(Send("GET", "/api/session", {second}).status, 200);
  ASSERT_TRUE(security::RevokeToken(server_options_.security.token_file, "user").ok());
  clock_.Advance(absl::Seconds(2));  // the file is looked at again
  EXPECT_EQ(Send("GET", "/api/job?namespace=a&name=secret-of-a", {second}).status, 401);
  EXPECT_THAT(Send("GET", "/", {second}).body, HasSubstr("action=\"/login\""));
  const std::string third = Cookie(other_);
  clock_.Advance(absl::Hours(13));
  EXPECT_EQ(Send("GET", "/api/session", {third}).status, 401);
}

TEST_F(WebDashboardTest, WhoGuessesHasToWait) {
  for (int i = 0; i < 10; ++i) EXPECT_EQ(SignIn(absl::StrCat("guess-", i)).status, 401);
  EXPECT_EQ(SignIn(user_).status, 429);
  clock_.Advance(absl::Minutes(2));
  EXPECT_EQ(SignIn(user_).status, 303);
  // What is no token is not asked about.
  EXPECT_EQ(SignIn("").status, 400);
  EXPECT_EQ(SignIn("a%0Ab").status, 400);
  EXPECT_EQ(SignIn(std::string(20000, 'x')).status, 400);
}

}  // namespace
}  // namespace adaptdl::supervisor
