#include "libs/service/strangers.h"

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace adaptdl::service {
namespace {

const absl::Time kStart = absl::FromUnixSeconds(1'000'000'000);

class StrangersTest : public testing::Test {
 protected:
  void Enter(int id, const std::string& host) {
    strangers_.Enter(&ids_[id], host, [this, id](const absl::Status& why) { ended_[id] = why.code(); });
  }
  void Leave(int id) { strangers_.Leave(&ids_[id]); }

  char ids_[32] = {};
  std::map<int, absl::StatusCode> ended_;
  Strangers strangers_{{.patience = absl::Seconds(10), .most = 6}};
};

TEST_F(StrangersTest, WhoeverSaysNothingIsSentAwayInTime) {
  Enter(0, "a");
  Enter(1, "b");
  strangers_.Step(kStart);
  Enter(2, "a");
  Leave(1);
  strangers_.Step(kStart + absl::Seconds(9));
  EXPECT_TRUE(ended_.empty());
  strangers_.Step(kStart + absl::Seconds(10));
  EXPECT_EQ(ended_, (std::map<int, absl::StatusCode>{{0, absl::StatusCode::kDeadlineExceeded}}));
  strangers_.Step(kStart + absl::Seconds(19));
  EXPECT_EQ(ended_.count(2), 1u);
  EXPECT_EQ(strangers_.size(), 0u);
  // It goes once more, as all do at their end.
  Leave(0);
}

TEST_F(StrangersTest, InAFullRoomTheHostWithMostMakesPlace) {
  Enter(0, "quiet");
  for (int i = 1; i < 10; ++i) Enter(i, "crowd");
  EXPECT_EQ(strangers_.size(), 6u);
  EXPECT_EQ(ended_.count(0), 0u);
  for (int i = 1; i < 10; ++i) EXPECT_EQ(ended_.count(i), i <= 4 ? 1u : 0u) << i;
  EXPECT_EQ(ended_[1], absl::StatusCode::kResourceExhausted);
  Enter(10, "third");
  EXPECT_EQ(ended_.count(5), 1u);
  EXPECT_EQ(ended_.count(0), 0u);
}

TEST(HostOfTest, AHostIsOneWhateverThePort) {
  EXPECT_EQ(HostOf("ipv4:10.0.0.1:41234"), HostOf("ipv4:10.0.0.1:2"));
  EXPECT_EQ(HostOf("ipv6:%5B::1%5D:41234"), "ipv6:%5B::1%5D");
  EXPECT_EQ(HostOf("unix:/run/a.sock"), "unix");
}

}  // namespace
}  // namespace adaptdl::service
