#include "libs/gcp/service_account.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/manual_clock.h"
#include "nlohmann/json.hpp"
#include "tests/libs/http/test_server.h"

namespace adaptdl::gcp {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

class ServiceAccountTest : public ::testing::Test {
 protected:
  // One for all tests: it takes a while to make.
  static void SetUpTestSuite() { key_ = EVP_RSA_gen(2048); }
  static void TearDownTestSuite() { EVP_PKEY_free(key_); }

  static std::string Pem(EVP_PKEY* key) {
    const std::unique_ptr<BIO, decltype(&BIO_free)> out(BIO_new(BIO_s_mem()), &BIO_free);
    PEM_write_bio_PrivateKey(out.get(), key, nullptr, nullptr, 0, nullptr, nullptr);
    char* text = nullptr;
    const auto size = BIO_get_mem_data(out.get(), &text);
    return {text, static_cast<size_t>(size)};
  }
  json File(const std::string& token_uri = "https://oauth2.example/token") const {
    return {{"type", "service_account"},
            {"client_email", "scaler@my-project.iam.gserviceaccount.com"},
            {"private_key_id", "key-1"},
            {"private_key", Pem(key_)},
            {"token_uri", token_uri}};
  }
  bool Verifies(absl::string_view text, const std::string& signature) const {
    const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
    return EVP_DigestVerifyInit(context.get(), nullptr, EVP_sha256(), nullptr, key_) == 1 &&
           EVP_DigestVerify(context.get(), reinterpret_cast<const unsigned char*>(signature.data()),
                            signature.size(), reinterpret_cast<const unsigned char*>(text.data()),
                            text.size()) == 1;
  }

  inline static EVP_PKEY* key_ = nullptr;
  ManualClock clock_;
  HttpClient http_;
};

TEST_F(ServiceAccountTest, TheStatementSaysWhoAsksForWhatAndIsSigned) {
  const auto key = ServiceAccountKey::Parse(File().dump());
  ASSERT_TRUE(key.ok()) << key.status();
  const absl::Time now = absl::FromUnixSeconds(1'900'000'000);
  const auto assertion = key->Assertion(kCloudPlatformScope, now);
  ASSERT_TRUE(assertion.ok()) << assertion.status();
  const std::vector<std::string> parts = absl::StrSplit(*assertion, '.');
  ASSERT_THAT(parts, SizeIs(3));
  std::string header;
  std::string claims;
  std::string signature;
  ASSERT_TRUE(absl::WebSafeBase64Unescape(parts[0], &header));
  ASSERT_TRUE(absl::WebSafeBase64Unescape(parts[1], &claims));
  ASSERT_TRUE(absl::WebSafeBase64Unescape(parts[2], &signature));
  EXPECT_THAT(parts[2], Not(HasSubstr("=")));
  EXPECT_EQ(json::parse(header), json({{"alg", "RS256"}, {"typ", "JWT"}, {"kid", "key-1"}}));
  const json expected = {{"iss", "scaler@my-project.iam.gserviceaccount.com"},
                         {"scope", "https://www.googleapis.com/auth/cloud-platform"},
                         {"aud", "https://oauth2.example/token"},
                         {"iat", 1'900'000'000},
                         {"exp", 1'900'003'600}};
  EXPECT_EQ(json::parse(claims), expected);
  EXPECT_TRUE(Verifies(absl::StrCat(parts[0], ".", parts[1]), signature));
}

TEST_F(ServiceAccountTest, IsExchangedForAToken) {
  std::string body;
  int status = 200;
  std::string answer = R"({"access_token": "abc", "expires_in": 3599, "token_type": "Bearer"})";
  TestServer server([&](Exchange& exchange) {
    body = exchange.request().body;
    exchange.Answer(status, answer);
  });
  const auto key = ServiceAccountKey::Parse(File(server.url() + "/token").dump());
  ASSERT_TRUE(key.ok()) << key.status();
  const auto token = FetchServiceAccountToken(*key, &http_, &clock_, {});
  ASSERT_TRUE(token.ok()) << token.status();
  EXPECT_EQ(token->text, "abc");
  EXPECT_THAT(body,
              StartsWith("grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=ey"));
  status = 400;
  answer = R"({"error": "invalid_grant", "error_description": "Invalid JWT Signature."})";
  const absl::Status refused = FetchServiceAccountToken(*key, &http_, &clock_, {}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(refused.message(), HasSubstr("invalid_grant Invalid JWT Signature."));
  status = 503;
  EXPECT_EQ(FetchServiceAccountToken(*key, &http_, &clock_, {}).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(ServiceAccountTest, RefusesFilesThatAreNoKeyAndTellsNothingOfThem) {
  const auto refusal = [](const std::string& file) {
    return std::string(ServiceAccountKey::Parse(file).status().message());
  };
  EXPECT_THAT(refusal("{"), HasSubstr("is no JSON object"));
  json file = File();
  file["type"] = "authorized_user";
  EXPECT_THAT(refusal(file.dump()), HasSubstr("has the type \"authorized_user\""));
  file = File();
  file.erase("client_email");
  EXPECT_THAT(refusal(file.dump()), HasSubstr("no client_email"));
  EXPECT_THAT(refusal(File("http://oauth2.example/token").dump()), HasSubstr("token_uri with https"));
  file = File();
  file["private_key"] = "secret";
  EXPECT_THAT(refusal(file.dump()), HasSubstr("private_key of RSA"));
  EXPECT_THAT(refusal(file.dump()), Not(HasSubstr("secret")));
  EVP_PKEY* const small = EVP_RSA_gen(1024);
  file["private_key"] = Pem(small);
  EVP_PKEY_free(small);
  EXPECT_THAT(refusal(file.dump()), HasSubstr("at least 2048 bits"));
}

}  // namespace
}  // namespace adaptdl::gcp
