#include "libs/service/security/jwt.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/libs/service/security/jwt_fixture.h"

namespace adaptdl::security {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const absl::Time kNow = absl::FromUnixSeconds(1'769'860'800);
constexpr int64_t kExpires = 1'769'864'400;

json Claims() {
  return {{"sub", "ann"},    {"iss", kIssuer},         {"aud", kAudience},
          {"exp", kExpires}, {"adaptdl_role", "user"}, {"adaptdl_namespaces", {"vision", "speech"}}};
}

class JwtTest : public ::testing::Test {
 protected:
  // Keys take their time to make.
  static void SetUpTestSuite() {
    rsa_ = new SigningKey(SigningKey::Rsa("one"));
    p256_ = new SigningKey(SigningKey::P256("two"));
    stranger_ = new SigningKey(SigningKey::P256("two"));
  }
  static void TearDownTestSuite() {
    delete rsa_;
    delete p256_;
    delete stranger_;
  }

  static absl::StatusOr<std::shared_ptr<const JwtVerifier>> Verifier(const std::vector<json>& keys) {
    return JwtVerifier::Create(JwkSet(keys).dump(), {kIssuer, kAudience});
  }
  static absl::StatusOr<JwtIdentity> Verify(const std::string& token, absl::Time now = kNow) {
    return (*Verifier({rsa_->Jwk(), p256_->Jwk()}))->Verify(token, now);
  }
  static std::string Refusal(const std::string& token, absl::Time now = kNow) {
    const absl::Status status = Verify(token, now).status();
    EXPECT_TRUE(absl::IsUnauthenticated(status)) << status;
    return std::string(status.message());
  }
  static std::string RefusalOf(const std::string& claim, const json& value) {
    json claims = Claims();
    claims[claim] = value;
    if (value.is_null()) claims.erase(claim);
    return Refusal(p256_->Sign(claims));
  }

  static SigningKey* rsa_;
  static SigningKey* p256_;
  static SigningKey* stranger_;
};

SigningKey* JwtTest::rsa_ = nullptr;
SigningKey* JwtTest::p256_ = nullptr;
SigningKey* JwtTest::stranger_ = nullptr;

TEST_F(JwtTest, TakesTokensOfBothKindsOfKeys) {
  for (const SigningKey* key : {rsa_, p256_}) {
    const absl::StatusOr<JwtIdentity> identity = Verify(key->Sign(Claims()));
    ASSERT_TRUE(identity.ok()) << identity.status();
    EXPECT_EQ(Describe(identity->caller), "identity \"ann\"");
    EXPECT_EQ(identity->caller.role, Role::kUser);
    EXPECT_THAT(identity->caller.namespaces, ElementsAre("vision", "speech"));
    EXPECT_EQ(identity->expires, absl::FromUnixSeconds(kExpires) + kClockSkew);
  }
}

TEST_F(JwtTest, TakesAdminsWithoutNamespacesAndSeveralAudiences) {
  json claims = Claims();
  claims["adaptdl_role"] = "admin";
  claims.erase("adaptdl_namespaces");
  claims["aud"] = {"other", kAudience};
  const absl::StatusOr<JwtIdentity> identity = Verify(rsa_->Sign(claims));
  ASSERT_TRUE(identity.ok()) << identity.status();
  EXPECT_EQ(identity->caller.role, Role::kAdmin);
}

TEST_F(JwtTest, FindsTheKeyOfATokenThatNamesNone) {
  EXPECT_TRUE(Verify(p256_->Sign({{"alg", "ES256"}}, Claims())).ok());
}

TEST_F(JwtTest, RefusesWhatNoKnownKeyHasSigned) {
  EXPECT_THAT(Refusal(stranger_->Sign(Claims())), HasSubstr("not signed"));
  const std::string token = p256_->Sign(Claims());
  const std::vector<std::string> parts = absl::StrSplit(token, '.');
  json claims = Claims();
  claims["adaptdl_role"] = "admin";
  const std::string forged = absl::WebSafeBase64Escape(claims.dump());
  EXPECT_THAT(Refusal(absl::StrCat(parts[0], ".", forged, ".", parts[2])), HasSubstr("not signed"));
  EXPECT_THAT(Refusal(absl::StrCat(parts[0], ".", parts[1], ".")), HasSubstr("not signed"));
  EXPECT_THAT(Refusal(p256_->Sign({{"alg", "ES256"}, {"kid", "three"}}, Claims())), HasSubstr("not signed"));
}

TEST_F(JwtTest, RefusesAnAlgorithmThatIsNotTheKeys) {
  for (const char* algorithm : {"none", "None", "HS256", "RS256", "ES384", ""}) {
    EXPECT_THAT(Refusal(p256_->Sign({{"alg", algorithm}, {"kid", "two"}}, Claims())), HasSubstr("not signed"))
        << algorithm;
  }
  // Without any signature.
  const std::string content = absl::StrCat(absl::WebSafeBase64Escape(R"({"alg":"none"})"), ".",
                                           absl::WebSafeBase64Escape(Claims().dump()));
  EXPECT_THAT(Refusal(absl::StrCat(content, ".")), HasSubstr("not signed"));
}

TEST_F(JwtTest, RefusesTokensOutsideTheirTime) {
  const std::string token = p256_->Sign(Claims());
  const absl::Time end = absl::FromUnixSeconds(kExpires) + kClockSkew;
  EXPECT_TRUE(Verify(token, end - absl::Seconds(1)).ok());
  EXPECT_THAT(Refusal(token, end), HasSubstr("expired"));
  json claims = Claims();
  claims["nbf"] = absl::ToUnixSeconds(kNow + absl::Minutes(5));
  EXPECT_THAT(Refusal(p256_->Sign(claims)), HasSubstr("not valid yet"));
  claims["nbf"] = absl::ToUnixSeconds(kNow + kClockSkew);
  EXPECT_TRUE(Verify(p256_->Sign(claims)).ok());
}

TEST_F(JwtTest, RefusesClaimsThatAreMissingOrWrong) {
  EXPECT_THAT(RefusalOf("exp", nullptr), HasSubstr("\"exp\""));
  EXPECT_THAT(RefusalOf("exp", "soon"), HasSubstr("\"exp\""));
  EXPECT_THAT(RefusalOf("exp", 1e300), HasSubstr("\"exp\""));
  EXPECT_THAT(RefusalOf("nbf", "soon"), HasSubstr("\"nbf\""));
  EXPECT_THAT(RefusalOf("iss", "https://elsewhere.example.org"), HasSubstr("issuer"));
  EXPECT_THAT(RefusalOf("iss", nullptr), HasSubstr("issuer"));
  EXPECT_THAT(RefusalOf("aud", "other"), HasSubstr("audience"));
  EXPECT_THAT(RefusalOf("aud", nullptr), HasSubstr("audience"));
  EXPECT_THAT(RefusalOf("aud", json::array()), HasSubstr("audience"));
  EXPECT_THAT(RefusalOf("sub", nullptr), HasSubstr("\"sub\""));
  EXPECT_THAT(RefusalOf("sub", "a\nb"), HasSubstr("\"sub\""));
  EXPECT_THAT(RefusalOf("adaptdl_role", nullptr), HasSubstr("adaptdl_role"));
  EXPECT_THAT(RefusalOf("adaptdl_role", "worker"), HasSubstr("adaptdl_role"));
  EXPECT_THAT(RefusalOf("adaptdl_namespaces", nullptr), HasSubstr("adaptdl_namespaces"));
  EXPECT_THAT(RefusalOf("adaptdl_namespaces", json::array({"*"})), HasSubstr("adaptdl_namespaces"));
  EXPECT_THAT(RefusalOf("adaptdl_namespaces", json::array({1})), HasSubstr("adaptdl_namespaces"));
}

TEST_F(JwtTest, RefusesWhatIsNoToken) {
  for (const std::string& token :
       {std::string(), std::string(".."), std::string("a.b"), std::string("!.!.!"),
        std::string("bnVsbA.bnVsbA.bnVsbA"), std::string("a.b.c.d"), std::string(20'000, 'a'),
        p256_->Sign(json::array(), Claims()), p256_->Sign({{"alg", "ES256"}}, json::array()),
        p256_->Sign({{"alg", "ES256"}, {"crit", {"exp"}}}, Claims())}) {
    Refusal(token);
  }
}

TEST_F(JwtTest, PassesOverKeysThatAreNotForUs) {
  json encryption = p256_->Jwk();
  encryption["use"] = "enc";
  json off_curve = p256_->Jwk();
  off_curve["x"] = off_curve["y"];
  json other_algorithm = rsa_->Jwk();
  other_algorithm["alg"] = "PS256";
  const SigningKey small = SigningKey::Rsa("small", 1024);
  const json symmetric = {{"kty", "oct"}, {"k", "c2VjcmV0"}};
  for (const json& key :
       {encryption, off_curve, other_algorithm, small.Jwk(), symmetric, json::object(), json("x")}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Verifier({key}).status())) << key;
    const auto verifier = Verifier({key, p256_->Jwk()});
    ASSERT_TRUE(verifier.ok()) << key;
    EXPECT_TRUE((*verifier)->Verify(p256_->Sign(Claims()), kNow).ok());
  }
}

TEST_F(JwtTest, RefusesWhatIsNoSetOfKeys) {
  for (const char* text : {"", "[]", "{}", R"({"keys": 1})", R"({"keys": []})"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(JwtVerifier::Create(text, {kIssuer, kAudience}).status())) << text;
  }
  const std::string set = JwkSet({p256_->Jwk()}).dump();
  EXPECT_TRUE(absl::IsInvalidArgument(JwtVerifier::Create(set, {"", kAudience}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(JwtVerifier::Create(set, {kIssuer, ""}).status()));
}

}  // namespace
}  // namespace adaptdl::security
