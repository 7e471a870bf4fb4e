#include "libs/gcp/rest_api.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/mutex.h"
#include "libs/gcp/errors.h"
#include "tests/libs/gcp/gcp_fixture.h"
#include "tests/libs/http/test_server.h"

namespace adaptdl::gcp {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

absl::Status ErrorOf(int status, const std::string& body) {
  HttpResponse response;
  response.status = status;
  response.body = body;
  return ErrorOfAnswer(response);
}

class RestApiTest : public ::testing::Test {
 protected:
  struct Reply {
    int status = 200;
    std::string body = "{}";
    bool cut = false;
  };

  // Answers these one after the other, the last one for good.
  void Serve(std::vector<Reply> replies) {
    server_.reset();
    {
      MutexLock lock(&mutex_);
      requests_.clear();
    }
    server_ = std::make_unique<TestServer>([this, replies](Exchange& exchange) {
      size_t turn = 0;
      {
        MutexLock lock(&mutex_);
        turn = requests_.size();
        requests_.push_back(exchange.request());
      }
      const Reply& reply = replies[std::min(turn, replies.size() - 1)];
      if (reply.cut) return exchange.Cut();
      exchange.Answer(reply.status, reply.body);
    });
    api_ = std::make_unique<RestApi>(RestApiOptions{.url = server_->url()},
                                     World{&http_, &tokens_, &clock_, &pauses_, [] { return 1.0; }});
  }
  std::vector<ServedRequest> requests() {
    MutexLock lock(&mutex_);
    return requests_;
  }
  static std::string Refusal(const std::string& reason) {
    return R"({"error": {"code": 403, "message": "so it is", "errors": [{"reason": ")" + reason + R"("}]}})";
  }
  absl::Status Call(bool may_repeat = true) {
    return api_->Call({.method = "POST", .path = "/p", .body = {{"a", 1}}, .may_repeat = may_repeat})
        .status();
  }

  ManualClock clock_;
  PassingPauses pauses_{&clock_};
  CountedTokens tokens_;
  HttpClient http_;
  std::unique_ptr<TestServer> server_;
  std::unique_ptr<RestApi> api_;

 private:
  Mutex mutex_;
  std::vector<ServedRequest> requests_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(RestApiTest, SaysWhoCallsAndWhatIsAsked) {
  Serve({{200, R"({"name": "operation-1"})"}});
  const auto answer =
      api_->Call({.method = "POST", .path = "/zones/z", .query = {{"q", "a b&c"}}, .body = {{"x", 1}}});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(TextAt(*answer, "name"), "operation-1");
  const ServedRequest request = requests().at(0);
  EXPECT_EQ(request.target, "/zones/z?q=a%20b%26c");
  EXPECT_EQ(request.headers.at("authorization"), "Bearer token-0");
  EXPECT_EQ(request.body, R"({"x":1})");
}

TEST_F(RestApiTest, ATokenThatIsRefusedIsRenewedOnce) {
  Serve({{401, "{}"}, {200, "{}"}});
  EXPECT_TRUE(Call().ok());
  EXPECT_EQ(requests().at(1).headers.at("authorization"), "Bearer token-1");
  Serve({{401, "{}"}});
  EXPECT_EQ(Call().code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(tokens_.refused(), 2);
}

TEST_F(RestApiTest, ThrottlingIsWaitedForAlsoWhereACallMayNotBeRepeated) {
  Serve({{403, Refusal("rateLimitExceeded")}, {429, "slow down"}, {200, "{}"}});
  EXPECT_TRUE(Call(/*may_repeat=*/false).ok());
  EXPECT_THAT(requests(), SizeIs(3));
}

TEST_F(RestApiTest, AnOutageIsWaitedForWithinPatienceWhereACallMayBeRepeated) {
  Serve({{503, "{}"}, {200, "", /*cut=*/true}, {200, "{}"}});
  EXPECT_TRUE(Call().ok());
  Serve({{503, "{}"}});
  const absl::Time begin = clock_.Steady();
  EXPECT_EQ(Call().code(), absl::StatusCode::kUnavailable);
  EXPECT_LE(clock_.Steady() - begin, absl::Seconds(30));
  Serve({{503, "{}"}, {200, "{}"}});
  EXPECT_EQ(Call(/*may_repeat=*/false).code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(requests(), SizeIs(1));
}

TEST_F(RestApiTest, ErrorsMeanWhatTheTableSays) {
  const auto code_of = [](int status, const std::string& reason) {
    return ErrorOf(status, Refusal(reason)).code();
  };
  EXPECT_EQ(code_of(403, "quotaExceeded"), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(code_of(403, "forbidden"), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(code_of(404, "notFound"), absl::StatusCode::kNotFound);
  EXPECT_EQ(code_of(409, "alreadyExists"), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(code_of(400, "invalid"), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code_of(400, "resourceNotReady"), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ErrorOfCode("ZONE_RESOURCE_POOL_EXHAUSTED", "none is left").code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(ErrorOf(403, Refusal("forbidden")).message(), HasSubstr("forbidden: so it is"));
  EXPECT_THAT(ErrorOf(502, "<html>").message(), HasSubstr("HTTP status 502"));
  EXPECT_FALSE(LeavesOpen(ErrorOf(400, "[]")));
}

TEST_F(RestApiTest, AnAnswerThatIsNoObjectIsAnError) {
  Serve({{200, "[1]"}});
  EXPECT_EQ(Call().code(), absl::StatusCode::kUnknown);
  const auto odd = nlohmann::json::parse(R"({"id": 18446, "name": 7, "list": {}})");
  EXPECT_EQ(NumberAt(odd, "id"), "18446");
  EXPECT_EQ(TextAt(odd, "name"), "");
  EXPECT_TRUE(ListAt(odd, "list").empty());
  EXPECT_TRUE(ObjectAt(odd, "missing").empty());
}

}  // namespace
}  // namespace adaptdl::gcp
