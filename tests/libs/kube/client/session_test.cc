#include "libs/kube/client/session.h"

#include <atomic>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/libs/kube/client/api_fixture.h"

namespace adaptdl::kube {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SessionTest : public ApiTest {
 protected:
  absl::Status Read() { return session_->Call({.target = Collection(Pods(), "n")}).status(); }
  absl::Status Write() {
    return session_->Call({.method = "POST", .target = Collection(Pods(), "n"), .body = "{}"}).status();
  }

  static void Fine(Exchange& exchange) { exchange.Answer(200, "{}"); }
  static std::function<void(Exchange&)> Fails(int status, std::vector<std::string> headers = {}) {
    return [=](Exchange& exchange) { exchange.Answer(status, "no", headers); };
  }
  static void Cuts(Exchange& exchange) {
    exchange.Begin(200);
    exchange.Cut();
  }
};

TEST_F(SessionTest, SendsWhatTheRequestSays) {
  Serve([](Exchange& exchange) {
    const ServedRequest& request = exchange.request();
    exchange.Answer(
        200, absl::StrCat(request.method, " ", request.target, " ", request.headers.at("authorization"), " ",
                          request.headers.at("content-type"), " ", request.body));
  });
  const auto answer = session_->Call({.method = "PATCH",
                                      .target = ObjectOf(Leases(), {"n", "a b"}).Sub("status"),
                                      .query = {{"force", "true"}, {"labelSelector", "a=b,c"}},
                                      .content_type = "x/y",
                                      .body = "{}"});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(
      *answer,
      "PATCH "
      "/apis/coordination.k8s.io/v1/namespaces/n/leases/a%20b/status?force=true&labelSelector=a%3Db%2Cc "
      "Bearer token-0 x/y {}");
}

TEST_F(SessionTest, KeepsThePathOfTheServer) {
  Serve([](Exchange& exchange) { exchange.Answer(200, exchange.request().target); });
  Connect(server_->url() + "/clusters/c");
  EXPECT_EQ(*session_->Call({.target = Collection(Pods())}), "/clusters/c/api/v1/pods");
}

TEST_F(SessionTest, RefusesWhatIsNoServer) {
  for (const char* server : {"", "10.0.0.1:443", "ftp://h", "https:///x"}) {
    Access access = {.server = server, .credentials = std::make_unique<CountedCredentials>()};
    EXPECT_EQ(Session::Create(std::move(access)).status().code(), absl::StatusCode::kInvalidArgument)
        << server;
  }
}

TEST_F(SessionTest, RenewsCredentialsOnceWhenTheyAreRefused) {
  Serve([](Exchange& exchange) {
    const bool good = exchange.request().headers.at("authorization") == "Bearer token-1";
    exchange.Answer(good ? 200 : 401, "{}");
  });
  EXPECT_TRUE(Write().ok());
  EXPECT_THAT(pauses_.taken(), IsEmpty());
}

TEST_F(SessionTest, GivesUpWhenRenewedCredentialsAreRefused) {
  ServeInTurn({Fails(401)});
  EXPECT_EQ(Write().code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(calls_, 2);
}

TEST_F(SessionTest, ComesBackWhenTheServerSaysSo) {
  ServeInTurn({Fails(429, {"Retry-After: 3"}), Fails(503, {"Retry-After: 5"}), Fine});
  EXPECT_TRUE(Write().ok());
  EXPECT_THAT(pauses_.taken(), ElementsAre(absl::Seconds(3), absl::Seconds(5)));
}

TEST_F(SessionTest, ItsPatienceEnds) {
  ServeInTurn({Fails(429, {"Retry-After: 20"})});
  EXPECT_EQ(Write().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(calls_, 4);  // after 0, 20, 40 and 60 seconds
}

TEST_F(SessionTest, AChangeThatMayHaveBeenMadeIsNotRepeated) {
  for (const auto& [answer, code] : std::vector<std::pair<std::function<void(Exchange&)>, absl::StatusCode>>{
           {Fails(500), absl::StatusCode::kInternal},
           {Fails(503), absl::StatusCode::kUnavailable},
           {Fails(504), absl::StatusCode::kDeadlineExceeded},
           {Cuts, absl::StatusCode::kUnavailable}}) {
    ServeInTurn({answer, Fine});
    EXPECT_EQ(Write().code(), code);
    EXPECT_EQ(calls_, 1);
  }
}

TEST_F(SessionTest, AReadIsRepeatedWithPausesThatGrow) {
  ServeInTurn({Fails(500), Fails(502), Fails(503), Fails(504), Cuts, Fine});
  EXPECT_TRUE(Read().ok());
  EXPECT_THAT(pauses_.taken(),
              ElementsAre(absl::Milliseconds(200), absl::Milliseconds(400), absl::Milliseconds(800),
                          absl::Milliseconds(1600), absl::Milliseconds(3200)));
}

TEST_F(SessionTest, AServerThatRestartsIsWaitedFor) {
  Serve(Fine);
  const int port = server_->port();
  server_.reset();
  // It comes back after the third try.
  pauses_.set_during([&] {
    if (pauses_.taken().size() == 3) server_ = std::make_unique<TestServer>(Fine, nullptr, port);
  });
  EXPECT_TRUE(Write().ok());
  EXPECT_EQ(pauses_.taken().size(), 3u);
}

TEST_F(SessionTest, OtherErrorsAreFinal) {
  ServeInTurn({Fails(404)});
  EXPECT_EQ(Read().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(calls_, 1);
}

TEST_F(SessionTest, AStopRequestEndsAPause) {
  ServeInTurn({Fails(429, {"Retry-After: 3"})});
  std::stop_source stop;
  pauses_.set_during([&] { stop.request_stop(); });
  EXPECT_EQ(session_->Call({.target = Collection(Pods())}, stop.get_token()).status().code(),
            absl::StatusCode::kCancelled);
  EXPECT_EQ(calls_, 1);
}

TEST_F(SessionTest, KeepsTheRate) {
  options_.burst = 2;
  options_.period = absl::Seconds(1);
  Serve(Fine);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(Read().ok());
  EXPECT_THAT(pauses_.taken(), ElementsAre(absl::Seconds(1), absl::Seconds(1)));
}

// Also a process that stood still in a pause between two tries.
TEST_F(SessionTest, WhoMayNotChangeAnythingReads) {
  bool leads = true;
  options_.may_change = [&leads] { return leads; };
  pauses_.set_during([&leads] { leads = false; });
  ServeInTurn({Fine, Fails(429, {"Retry-After: 1"}), Fine});
  EXPECT_TRUE(Write().ok());
  EXPECT_TRUE(absl::IsUnavailable(Write())) << "the second try is not made";
  EXPECT_TRUE(absl::IsUnavailable(Write()));
  EXPECT_TRUE(Read().ok());
}

TEST_F(SessionTest, ObserversSeeEveryTry) {
  std::vector<int> seen;
  options_.observe = [&](const ApiCall& call) { seen.push_back(call.http_status); };
  ServeInTurn({Fails(500), Cuts, Fine});
  EXPECT_TRUE(Read().ok());
  EXPECT_THAT(seen, ElementsAre(500, 0, 200));
}

TEST_F(SessionTest, AStreamIsNotBegunAgain) {
  ServeInTurn({[](Exchange& exchange) {
    exchange.Begin(200);
    exchange.Part("part");
    exchange.Cut();
  }});
  std::string got;
  const absl::Status status = session_->Stream({.target = Collection(Pods())}, [&](absl::string_view part) {
    absl::StrAppend(&got, part);
    return absl::OkStatus();
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(got, "part");
}

TEST_F(SessionTest, ErrorsHaveTheServersWords) {
  Serve([](Exchange& exchange) {
    exchange.Answer(
        409, R"({"kind":"Status","code":409,"reason":"AlreadyExists","message":"pods \"p\" is there"})");
  });
  const absl::Status error = Write();
  EXPECT_EQ(error.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(error.message(), HasSubstr("pods \"p\" is there"));
}

}  // namespace
}  // namespace adaptdl::kube
