#include "libs/enrolment/join_token.h"

#include <string>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/certificates/openssl.h"

namespace adaptdl::enrolment {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const char kSecret[] = "adaptdl-join-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

std::string Authority(const std::string& name) {
  const auto key = certificates::MakeKey().value();
  return certificates::ToPem(
      certificates::MakeCertificate({.common_name = name,
                                     .dns_name = "",
                                     .uri = "",
                                     .not_before = absl::FromUnixSeconds(1'700'000'000),
                                     .not_after = absl::FromUnixSeconds(1'900'000'000),
                                     .kind = certificates::Kind::kAuthority},
                                    key.get(), nullptr, nullptr)
          .value()
          .get());
}

TEST(JoinTokenTest, CarriesTheAuthorities) {
  // While one is replaced by another, there are two.
  const std::string authority = Authority("one") + Authority("two");
  const std::string text = FormatJoinToken({.secret = kSecret, .authority = authority}).value();
  EXPECT_THAT(text, Not(HasSubstr("\n")));
  const auto token = ParseJoinToken(" " + text + "\n");
  ASSERT_TRUE(token.ok()) << token.status();
  EXPECT_EQ(token->secret, kSecret);
  EXPECT_EQ(token->authority, authority);
}

TEST(JoinTokenTest, MayBeASecretAlone) {
  const auto token = ParseJoinToken(kSecret);
  ASSERT_TRUE(token.ok());
  EXPECT_EQ(token->secret, kSecret);
  EXPECT_EQ(token->authority, "");
}

TEST(JoinTokenTest, RefusesAllElseAndRepeatsNothingOfIt) {
  const std::string good = FormatJoinToken({.secret = kSecret, .authority = Authority("one")}).value();
  const std::string nine = [] {
    std::string all;
    for (int i = 0; i < 9; ++i) all += Authority("x");
    return all;
  }();
  EXPECT_FALSE(FormatJoinToken({.secret = kSecret, .authority = nine}).ok());
  EXPECT_FALSE(FormatJoinToken({.secret = kSecret, .authority = "no PEM"}).ok());
  for (const std::string& text :
       {std::string(), std::string("adaptdl-join-"), std::string(kSecret) + "0", std::string(kSecret) + ".",
        std::string(kSecret) + ".!!", std::string(kSecret) + ".AAAA", good.substr(0, good.size() - 8),
        good + "." + good, std::string(kMaxTokenBytes + 1, 'a'), "x" + std::string(kSecret)}) {
    const auto token = ParseJoinToken(text);
    EXPECT_EQ(token.status().code(), absl::StatusCode::kInvalidArgument) << text.substr(0, 100);
    EXPECT_THAT(std::string(token.status().message()), Not(HasSubstr("0123456789abcdef")));
  }
}

}  // namespace
}  // namespace adaptdl::enrolment
