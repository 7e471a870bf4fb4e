#include "libs/service/security/token_file.h"

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/file.h"
#include "libs/base/manual_clock.h"

namespace adaptdl::security {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::SizeIs;

constexpr char kHash[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

class TokenFileTest : public ::testing::Test {
 protected:
  TokenFileTest() {
    char folder[] = "/tmp/adaptdl-tokens-XXXXXX";
    folder_ = mkdtemp(folder);
    path_ = absl::StrCat(folder_, "/tokens.json");
  }
  ~TokenFileTest() override { std::filesystem::remove_all(folder_); }

  absl::StatusOr<std::string> Create(const NewToken& token) { return CreateToken(path_, token, clock_); }

  ManualClock clock_{absl::FromUnixSeconds(1'767'225'600)};  // 2026-01-01
  std::string folder_;
  std::string path_;
};

NewToken User(const std::string& name) {
  return {.name = name, .role = Role::kUser, .namespaces = {"vision"}};
}

TEST_F(TokenFileTest, FindsTheTokenThatWasMade) {
  const absl::StatusOr<std::string> secret = Create(User("ci"));
  ASSERT_TRUE(secret.ok()) << secret.status();
  EXPECT_THAT(*secret, MatchesRegex("adaptdl_[A-Za-z0-9_-]{43}"));
  const absl::StatusOr<std::vector<Token>> tokens = ReadTokenFile(path_);
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  ASSERT_THAT(*tokens, SizeIs(1));
  EXPECT_EQ(tokens->front().created, clock_.Now());
  EXPECT_EQ(tokens->front().expires, absl::InfiniteFuture());
  const TokenTable table(*tokens);
  const Token* found = table.Find(*secret, clock_.Now() + absl::Hours(24 * 365 * 50));
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->name, "ci");
  EXPECT_EQ(found->role, Role::kUser);
  EXPECT_THAT(found->namespaces, ElementsAre("vision"));
  EXPECT_EQ(table.Find(absl::StrCat(*secret, "x"), clock_.Now()), nullptr);
  EXPECT_EQ(table.Find("", clock_.Now()), nullptr);
}

TEST_F(TokenFileTest, HoldsNoSecretAndIsForItsOwnerOnly) {
  const std::string secret = *Create(User("ci"));
  EXPECT_THAT(*ReadWholeFile(path_), Not(HasSubstr(secret)));
  EXPECT_THAT(*ReadWholeFile(path_), HasSubstr(Sha256Hex(secret)));
  struct stat status {};
  ASSERT_EQ(stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  // A hash from the file is no token.
  EXPECT_EQ(TokenTable(*ReadTokenFile(path_)).Find(Sha256Hex(secret), clock_.Now()), nullptr);
}

TEST_F(TokenFileTest, ForgetsATokenWhenItExpires) {
  NewToken token = User("ci");
  token.lifetime = absl::Hours(1);
  const std::string secret = *Create(token);
  const TokenTable table(*ReadTokenFile(path_));
  EXPECT_NE(table.Find(secret, clock_.Now() + absl::Minutes(59)), nullptr);
  EXPECT_EQ(table.Find(secret, clock_.Now() + absl::Minutes(60)), nullptr);
}

TEST_F(TokenFileTest, RevokesOneTokenAndKeepsTheOthers) {
  const std::string first = *Create(User("first"));
  const std::string second = *Create({.name = "second", .role = Role::kOperator, .namespaces = {}});
  ASSERT_TRUE(RevokeToken(path_, "first").ok());
  const TokenTable table(*ReadTokenFile(path_));
  EXPECT_EQ(table.Find(first, clock_.Now()), nullptr);
  EXPECT_NE(table.Find(second, clock_.Now()), nullptr);
  EXPECT_TRUE(absl::IsNotFound(RevokeToken(path_, "first")));
  EXPECT_TRUE(absl::IsNotFound(RevokeToken(absl::StrCat(folder_, "/none.json"), "first")));
}

TEST_F(TokenFileTest, RefusesTokensThatMakeNoSense) {
  ASSERT_TRUE(Create(User("ci")).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(Create(User("ci")).status()));
  for (const std::string& name :
       {std::string(), std::string("a b"), std::string("-a"), std::string(64, 'a')}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Create(User(name)).status())) << name;
  }
  const auto refused = [this](Role role, std::vector<std::string> namespaces) {
    return absl::IsInvalidArgument(
        Create({.name = "x", .role = role, .namespaces = std::move(namespaces)}).status());
  };
  EXPECT_TRUE(refused(Role::kUser, {}));
  EXPECT_TRUE(refused(Role::kUser, {"*"}));
  EXPECT_TRUE(refused(Role::kUser, {"Vision"}));
  EXPECT_TRUE(refused(Role::kAdmin, {"vision"}));
  EXPECT_TRUE(refused(Role::kSupervisor, {}));
  NewToken dead = User("dead");
  dead.lifetime = absl::ZeroDuration();
  EXPECT_TRUE(absl::IsInvalidArgument(Create(dead).status()));
  EXPECT_THAT(*ReadTokenFile(path_), SizeIs(1));
}

TEST_F(TokenFileTest, ReadsAFileThatWasWrittenByHand) {
  const absl::StatusOr<std::vector<Token>> tokens = ParseTokens(
      absl::StrCat(R"({"tokens": [{"name": "a", "role": "admin", "sha256": ")", kHash,
                   R"(", "created": "2026-01-31T12:00:00Z", "expires": "2026-02-28T13:00:00+01:00"}]})"));
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  EXPECT_EQ(tokens->front().role, Role::kAdmin);
  EXPECT_EQ(tokens->front().expires, absl::FromUnixSeconds(1'772'280'000));
  EXPECT_THAT(*ParseTokens(R"({"tokens": []})"), IsEmpty());
}

TEST_F(TokenFileTest, SaysWhatIsWrongInAFile) {
  const auto error = [](const std::string& fields) {
    const std::string text = absl::StrCat(
        R"({"tokens": [{"name": "a", "role": "admin", "created": "2026-01-31T12:00:00Z", )", fields, "}]}");
    const absl::Status status = ParseTokens(text).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text;
    return std::string(status.message());
  };
  const std::string hash = absl::StrCat(R"("sha256": ")", kHash, "\"");
  EXPECT_THAT(error(R"("sha256": "12")"), HasSubstr("tokens[0]: sha256"));
  EXPECT_THAT(error(absl::StrCat(hash, R"(, "expire": "2026-01-31T12:00:00Z")")),
              HasSubstr("tokens[0]: expire is no field"));
  EXPECT_THAT(error(absl::StrCat(hash, R"(, "expires": "soon")")), HasSubstr("tokens[0]: expires"));
  EXPECT_THAT(error(absl::StrCat(hash, R"(, "expires": null)")), HasSubstr("tokens[0]: expires"));
  EXPECT_THAT(error(absl::StrCat(hash, R"(, "namespaces": "vision")")), HasSubstr("tokens[0]: namespaces"));
  EXPECT_THAT(error(absl::StrCat(hash, R"(, "namespaces": [1])")), HasSubstr("tokens[0]: namespaces"));
  for (const char* text : {"", "[]", "{}", R"({"tokens": {}})", R"({"tokens": [], "more": 1})",
                           "{\"tokens\": [}", R"({"tokens": [1]})"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseTokens(text).status())) << text;
  }
}

TEST_F(TokenFileTest, RefusesTwoTokensOfOneNameOrSecret) {
  const auto entry = [](const std::string& name, char digit) {
    return absl::StrCat(R"({"name": ")", name,
                        R"(", "role": "admin", "created": "2026-01-31T12:00:00Z", "sha256": ")",
                        std::string(64, digit), "\"}");
  };
  const auto parse = [](const std::string& a, const std::string& b) {
    return ParseTokens(absl::StrCat("{\"tokens\": [", a, ",", b, "]}")).status();
  };
  EXPECT_TRUE(parse(entry("a", '1'), entry("b", '2')).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(parse(entry("a", '1'), entry("a", '2'))));
  EXPECT_TRUE(absl::IsInvalidArgument(parse(entry("a", '1'), entry("b", '1'))));
}

TEST_F(TokenFileTest, RefusesAFileThatOthersMayWrite) {
  ASSERT_TRUE(Create(User("ci")).ok());
  ASSERT_EQ(chmod(path_.c_str(), 0620), 0);
  EXPECT_TRUE(absl::IsFailedPrecondition(ReadTokenFile(path_).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(RevokeToken(path_, "ci")));
  ASSERT_EQ(chmod(path_.c_str(), 0644), 0);
  EXPECT_TRUE(ReadTokenFile(path_).ok());
}

TEST_F(TokenFileTest, LosesNoTokenWhenSeveralAreMadeAtOnce) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this, i] {
      for (int k = 0; k < 5; ++k) EXPECT_TRUE(Create(User(absl::StrCat("t", i, "-", k))).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(*ReadTokenFile(path_), SizeIs(20));
}

}  // namespace
}  // namespace adaptdl::security
