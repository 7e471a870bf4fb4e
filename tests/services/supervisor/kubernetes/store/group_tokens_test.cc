#include "services/supervisor/kubernetes/store/group_tokens.h"

#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/services/supervisor/job_records.h"

namespace adaptdl::supervisor {
namespace {

using ::testing::ElementsAre;
using ::testing::Key;

TEST(GroupTokensTest, AreHmacSha256OfTheKey) {
  // $ printf 'uid-1/3' | openssl dgst -sha256 -hmac 0123456789abcdef0123456789abcdef
  EXPECT_EQ(GroupTokens::Create("0123456789abcdef0123456789abcdef")->Token("uid-1", 3),
            "0b587e11e51d227294541a571d5000d2d3b0115b8b883418237d8459924f23bc");
}

TEST(GroupTokensTest, DifferByKeyJobAndGroup) {
  const GroupTokens a = GroupTokens::Create(std::string(32, 'a')).value();
  const GroupTokens b = GroupTokens::Create(std::string(32, 'b')).value();
  const std::set<std::string> tokens = {a.Token("u", 1), a.Token("u", 2),  a.Token("v", 1),
                                        b.Token("u", 1), a.Token("u", 11), a.Token("u1", 1)};
  EXPECT_EQ(tokens.size(), 6u);
  EXPECT_EQ(a.Token("u", 1), GroupTokens::Create(std::string(32, 'a'))->Token("u", 1));
}

TEST(GroupTokensTest, AKeyThatCanBeGuessedIsRefused) {
  EXPECT_EQ(GroupTokens::Create("").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(GroupTokens::Create(std::string(31, 'x')).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(GroupTokensTest, ARecordGetsThoseThatItsReplicasMayHold) {
  JobRecord record = MakeJob(1);
  record.state.group = 3;
  record.state.plans.resize(1);
  record.state.plans[0].group = 6;
  ReplicaRecord replica;
  replica.launch_group = 2;
  replica.replica.set_group(5);
  const GroupTokens tokens = GroupTokens::Create(std::string(32, 'a')).value();
  tokens.Fill({replica}, &record);
  EXPECT_THAT(record.tokens, ElementsAre(Key(2), Key(3), Key(5), Key(6)));
  EXPECT_EQ(record.tokens[6], tokens.Token("uid-1", 6));
}

}  // namespace
}  // namespace adaptdl::supervisor
