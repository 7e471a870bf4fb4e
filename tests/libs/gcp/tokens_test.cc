#include "libs/gcp/tokens.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/manual_clock.h"
#include "libs/gcp/metadata_token.h"
#include "tests/libs/http/test_server.h"

namespace adaptdl::gcp {
namespace {

using ::testing::HasSubstr;

class KeptTokenTest : public ::testing::Test {
 protected:
  std::string Get() { return tokens_.Get({}).value_or("none"); }

  ManualClock clock_;
  int fetched_ = 0;
  absl::Status failure_;
  KeptToken tokens_{[this](const std::stop_token&) -> absl::StatusOr<Token> {
                      if (!failure_.ok()) return failure_;
                      return Token{absl::StrCat("token-", fetched_++), clock_.Now() + absl::Hours(1)};
                    },
                    &clock_};
};

TEST_F(KeptTokenTest, IsRenewedBeforeItExpires) {
  EXPECT_EQ(Get(), "token-0");
  clock_.Advance(absl::Minutes(55));
  EXPECT_EQ(Get(), "token-0");
  clock_.Advance(absl::Minutes(2));
  EXPECT_EQ(Get(), "token-1");
}

TEST_F(KeptTokenTest, ServesUntilItExpiresWhileNoOtherOneIsToBeHad) {
  EXPECT_EQ(Get(), "token-0");
  failure_ = absl::UnavailableError("out");
  clock_.Advance(absl::Minutes(57));
  EXPECT_EQ(Get(), "token-0");
  clock_.Advance(absl::Minutes(3));
  EXPECT_EQ(tokens_.Get({}).status(), failure_);
  failure_ = absl::OkStatus();
  EXPECT_EQ(Get(), "token-1");
}

TEST_F(KeptTokenTest, OneThatIsRefusedIsNotGivenAgain) {
  EXPECT_EQ(Get(), "token-0");
  tokens_.Refused("another");
  EXPECT_EQ(Get(), "token-0");
  tokens_.Refused("token-0");
  EXPECT_EQ(Get(), "token-1");
}

TEST(TokenTest, WhatIsNoTokenIsRefused) {
  const absl::Time now = absl::FromUnixSeconds(1'900'000'000);
  const auto token =
      ParseToken(R"({"access_token": "abc", "expires_in": 3599, "token_type": "Bearer"})", now);
  ASSERT_TRUE(token.ok()) << token.status();
  EXPECT_EQ(token->text, "abc");
  EXPECT_EQ(token->expires, now + absl::Seconds(3599));
  for (const char* answer :
       {"", "[]", "{}", R"({"access_token": "abc"})", R"({"access_token": "", "expires_in": 1})",
        R"({"access_token": "a\r\nX: y", "expires_in": 1})", R"({"access_token": "abc", "expires_in": -1})",
        R"({"access_token": "abc", "expires_in": "soon"})",
        R"({"access_token": "abc", "expires_in": 1e99})"}) {
    EXPECT_EQ(ParseToken(answer, now).status().code(), absl::StatusCode::kUnauthenticated) << answer;
  }
}

TEST(MetadataTokenTest, IsGivenToWhoAsksTheServiceRight) {
  std::string flavour;
  int status = 200;
  TestServer server([&](Exchange& exchange) {
    flavour = exchange.request().headers.count("metadata-flavor") > 0
                  ? exchange.request().headers.at("metadata-flavor")
                  : "";
    EXPECT_EQ(exchange.request().target, "/computeMetadata/v1/instance/service-accounts/default/token");
    exchange.Answer(status, R"({"access_token": "abc", "expires_in": 100})");
  });
  HttpClient http;
  ManualClock clock;
  const auto token = FetchMetadataToken(server.url(), &http, &clock, {});
  ASSERT_TRUE(token.ok()) << token.status();
  EXPECT_EQ(token->text, "abc");
  EXPECT_EQ(flavour, "Google");
  status = 404;
  EXPECT_THAT(FetchMetadataToken(server.url(), &http, &clock, {}).status().message(),
              HasSubstr("no service account"));
  status = 500;
  EXPECT_EQ(FetchMetadataToken(server.url(), &http, &clock, {}).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(MetadataUrl(""), "http://169.254.169.254");
  EXPECT_EQ(MetadataUrl("localhost:80"), "http://localhost:80");
}

}  // namespace
}  // namespace adaptdl::gcp
