#include "libs/http/http_client.h"

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/libs/http/test_identity.h"
#include "tests/libs/http/test_server.h"

namespace adaptdl {
namespace {

TEST(HttpClientTest, SendsWhatItIsGivenAndReturnsTheAnswer) {
  TestServer server([](Exchange& exchange) {
    const ServedRequest& request = exchange.request();
    exchange.Answer(201, absl::StrCat(request.method, " ", request.target, " ", request.body, " ",
                                      request.headers.at("content-type")));
  });
  HttpClient http;
  const auto answer = http.Send({.method = "PATCH",
                                 .url = server.url() + "/a?b=c",
                                 .headers = {"Content-Type: text/x"},
                                 .body = "the body"});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->status, 201);
  EXPECT_EQ(answer->body, "PATCH /a?b=c the body text/x");
  EXPECT_FALSE(answer->retry_after.has_value());
}

TEST(HttpClientTest, KeepsConnectionsForTheNextCall) {
  TestServer server([](Exchange& exchange) { exchange.Answer(200, "x"); });
  HttpClient http;
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(http.Send({.url = server.url()}).ok());
  EXPECT_EQ(server.connections(), 1);
}

TEST(HttpClientTest, AnErrorOfTheServerIsAnAnswer) {
  TestServer server([](Exchange& exchange) { exchange.Answer(429, "slowly", {"Retry-After: 7"}); });
  HttpClient http;
  const auto answer = http.Send({.url = server.url()});
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->status, 429);
  EXPECT_EQ(answer->body, "slowly");
  EXPECT_EQ(answer->retry_after, absl::Seconds(7));
}

TEST(HttpClientTest, TellsTheHeaderOfTheAnswer) {
  TestServer server([](Exchange& exchange) {
    exchange.Answer(200, "", {"ETag: \"a:b\"", "X-A:1", "x-a: 2"});
  });
  HttpClient http;
  const auto answer = http.Send({.url = server.url()});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->headers.at("etag"), "\"a:b\"");
  EXPECT_EQ(answer->headers.at("x-a"), "2");
}

TEST(HttpClientTest, RefusesAHeaderThatIsTooLarge) {
  TestServer server([](Exchange& exchange) {
    std::vector<std::string> fields;
    for (int i = 0; i < 200; ++i) fields.push_back(absl::StrCat("X-", i, ": ", std::string(1000, 'x')));
    exchange.Answer(200, "", fields);
  });
  HttpClient http;
  EXPECT_EQ(http.Send({.url = server.url()}).status().code(), absl::StatusCode::kOutOfRange);
}

TEST(HttpClientTest, GoesByTheProxyOfTheEnvironmentUnlessDirect) {
  TestServer proxy([](Exchange& exchange) { exchange.Answer(200, "the proxy"); });
  TestServer server([](Exchange& exchange) { exchange.Answer(200, "the server"); });
  setenv("http_proxy", proxy.url().c_str(), 1);
  HttpClient http;
  EXPECT_EQ(http.Send({.url = server.url()})->body, "the proxy");
  EXPECT_EQ(http.Send({.url = server.url(), .direct = true})->body, "the server");
  unsetenv("http_proxy");
}

TEST(HttpClientTest, FollowsNoRedirects) {
  std::atomic<int> calls = 0;
  TestServer server([&](Exchange& exchange) {
    ++calls;
    exchange.Answer(302, "", {"Location: /elsewhere"});
  });
  HttpClient http;
  EXPECT_EQ(http.Send({.url = server.url()})->status, 302);
  EXPECT_EQ(calls, 1);
}

TEST(HttpClientTest, SaysWhenNothingWasSent) {
  std::string url;
  {
    TestServer server([](Exchange&) {});
    url = server.url();
  }
  HttpClient http;
  const auto answer = http.Send({.url = url});
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(NotConnected(answer.status()));
}

TEST(HttpClientTest, ACutConnectionIsUnavailable) {
  TestServer server([](Exchange& exchange) {
    exchange.Begin(200);
    exchange.Part("half of ");
    exchange.Cut();
  });
  HttpClient http;
  const auto answer = http.Send({.url = server.url()});
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(NotConnected(answer.status()));
}

TEST(HttpClientTest, ABodyIsSentOnceAtMost) {
  std::atomic<int> bodies = 0;
  TestServer server([&](Exchange& exchange) {
    if (exchange.request().body.empty()) return exchange.Answer(200, "");
    ++bodies;
    exchange.Cut();
  });
  HttpClient http;
  ASSERT_TRUE(http.Send({.url = server.url()}).ok());  // the connection is kept
  EXPECT_EQ(http.Send({.method = "POST", .url = server.url(), .body = "x"}).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(bodies, 1);
}

TEST(HttpClientTest, SendsLargeBodies) {
  const std::string body(1 << 20, 'x');
  TestServer server(
      [&](Exchange& exchange) { exchange.Answer(exchange.request().body == body ? 200 : 400, ""); });
  HttpClient http;
  EXPECT_EQ(http.Send({.method = "PUT", .url = server.url(), .body = body})->status, 200);
}

TEST(HttpClientTest, ASlowServerRunsIntoTheTimeout) {
  TestServer server([](Exchange& exchange) { exchange.AwaitClosed(); });
  HttpClient http;
  const auto answer = http.Send({.url = server.url(), .timeout = absl::Milliseconds(50)});
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST(HttpClientTest, BoundsTheBody) {
  TestServer server([](Exchange& exchange) { exchange.Answer(200, std::string(1001, 'x')); });
  HttpClient http({.max_body_bytes = 1000});
  EXPECT_EQ(http.Send({.url = server.url()}).status().code(), absl::StatusCode::kOutOfRange);
}

TEST(HttpClientTest, RefusesOtherProtocols) {
  HttpClient http;
  EXPECT_EQ(http.Send({.url = "file:///etc/passwd"}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(HttpClientTest, AStopRequestEndsACallThatWaits) {
  std::stop_source stop;
  TestServer server([&](Exchange& exchange) {
    stop.request_stop();  // while the client waits for the answer
    exchange.AwaitClosed();
  });
  HttpClient http;
  EXPECT_EQ(
      http.Send({.url = server.url(), .timeout = absl::InfiniteDuration()}, stop.get_token()).status().code(),
      absl::StatusCode::kCancelled);
}

TEST(HttpClientTest, AfterAStopRequestNothingIsSent) {
  TestServer server([](Exchange& exchange) { exchange.Answer(200, ""); });
  std::stop_source stop;
  stop.request_stop();
  HttpClient http;
  EXPECT_EQ(http.Send({.url = server.url()}, stop.get_token()).status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(server.connections(), 0);
}

TEST(HttpClientTest, StreamsPartsAsTheyCome) {
  std::stop_source stop;
  TestServer server([&](Exchange& exchange) {
    exchange.Begin(200);
    exchange.Part("one");
    exchange.AwaitClosed();
  });
  HttpClient http({.max_body_bytes = 1});
  std::string got;
  const auto answer = http.Stream(
      {.url = server.url(), .timeout = absl::InfiniteDuration()},
      [&](absl::string_view part) {
        absl::StrAppend(&got, part);
        if (got == "one") stop.request_stop();
        return absl::OkStatus();
      },
      stop.get_token());
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(got, "one");
}

TEST(HttpClientTest, AStreamOfAnErrorIsItsBody) {
  TestServer server([](Exchange& exchange) { exchange.Answer(410, "gone"); });
  HttpClient http;
  const auto answer = http.Stream({.url = server.url()}, [](absl::string_view) {
    ADD_FAILURE();
    return absl::OkStatus();
  });
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->body, "gone");
}

TEST(HttpClientTest, WhoeverTakesAStreamMayEndIt) {
  TestServer server([](Exchange& exchange) {
    exchange.Begin(200);
    while (exchange.Part("x")) {
    }
  });
  HttpClient http;
  const auto answer =
      http.Stream({.url = server.url()}, [](absl::string_view) { return absl::DataLossError("no x"); });
  EXPECT_EQ(answer.status(), absl::DataLossError("no x"));
}

class HttpTlsTest : public ::testing::Test {
 protected:
  std::string Url() { return absl::StrCat("https://supervisor.adaptdl:", server_.port()); }
  std::string Here() { return absl::StrCat("127.0.0.1:", server_.port()); }

  const TestIdentity supervisor_ = MakeTestIdentity("supervisor");
  const TestIdentity worker_ = MakeTestIdentity("worker");
  const TestServerTls tls_ = {supervisor_.certificate_pem, supervisor_.key_pem, worker_.ca_pem};
  TestServer server_{[](Exchange& exchange) { exchange.Answer(200, exchange.peer()); }, &tls_};
  HttpClient http_;
};

TEST_F(HttpTlsTest, KnowsTheServerByTheAuthority) {
  const auto answer = http_.Send({.url = Url(), .connect_to = Here(), .tls = {.ca_pem = supervisor_.ca_pem}});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->body, "");
}

TEST_F(HttpTlsTest, RefusesTheCertificateOfAnotherAuthority) {
  const auto answer = http_.Send({.url = Url(), .connect_to = Here(), .tls = {.ca_pem = worker_.ca_pem}});
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kUnauthenticated) << answer.status();
}

TEST_F(HttpTlsTest, RefusesTheCertificateOfAnotherName) {
  const auto answer = http_.Send({.url = server_.url(), .tls = {.ca_pem = supervisor_.ca_pem}});
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kUnauthenticated) << answer.status();
}

TEST_F(HttpTlsTest, TakesAnyCertificateWhereItIsToldTo) {
  EXPECT_TRUE(http_.Send({.url = server_.url(), .tls = {.insecure = true}}).ok());
}

TEST_F(HttpTlsTest, ShowsItsOwnCertificateAndNoOldOne) {
  HttpRequest request = {.url = Url(), .connect_to = Here(), .tls = {.ca_pem = supervisor_.ca_pem}};
  EXPECT_EQ(http_.Send(request)->body, "");
  request.tls.certificate_pem = worker_.certificate_pem;
  request.tls.key_pem = worker_.key_pem;
  const auto answer = http_.Send(request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->body, worker_.common_name);
  EXPECT_EQ(server_.connections(), 2);
}

}  // namespace
}  // namespace adaptdl
