#include "libs/comm/tcp_rendezvous.h"

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace adaptdl::comm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::unique_ptr<TcpRendezvous> HostOne() { return *TcpRendezvous::Host("127.0.0.1"); }

std::unique_ptr<TcpRendezvous> JoinAt(const TcpRendezvous& host) {
  return *TcpRendezvous::Join(host.address());
}

TEST(TcpRendezvous, RefusesAnAddressWithoutPort) {
  EXPECT_EQ(TcpRendezvous::Join("nowhere").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(TcpRendezvous::Join("nowhere:0").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(TcpRendezvous, SaysWhenNobodyAnswers) {
  std::string address;
  { address = HostOne()->address(); }
  EXPECT_EQ(TcpRendezvous::Join(address, absl::Milliseconds(10)).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST(TcpRendezvous, GivesEveryMemberThePartsOfAll) {
  auto host = HostOne();
  std::vector<std::thread> others;
  for (int rank = 1; rank < 4; ++rank) {
    others.emplace_back([&host, rank] {
      auto meeting = JoinAt(*host)->Meet({.rank = rank, .size = 4}, absl::StrCat("part ", rank));
      ASSERT_TRUE(meeting.ok()) << meeting.status();
      EXPECT_THAT(meeting->parts, ElementsAre("", "part 1", "part 2", "part 3"));
    });
  }
  auto meeting = host->Meet({.rank = 0, .size = 4}, "");
  ASSERT_TRUE(meeting.ok()) << meeting.status();
  EXPECT_THAT(meeting->parts, ElementsAre("", "part 1", "part 2", "part 3"));
  for (std::thread& other : others) other.join();
}

TEST(TcpRendezvous, GuestsOfALaterGroupWaitForTheirTurn) {
  auto host = HostOne();
  const auto take_part = [&host](const std::string& group) {
    EXPECT_TRUE(JoinAt(*host)->Meet({.rank = 1, .size = 2, .group = group}, "").ok());
  };
  std::thread later(take_part, "2");
  std::thread sooner(take_part, "1");
  EXPECT_TRUE(host->Meet({.rank = 0, .size = 2, .group = "1"}, "").ok());
  EXPECT_TRUE(host->Meet({.rank = 0, .size = 2, .group = "2"}, "").ok());
  later.join();
  sooner.join();
}

TEST(TcpRendezvous, NamesThoseThatHaveNotArrived) {
  auto host = HostOne();
  absl::Status seen_by_guest;
  std::thread guest([&] {
    seen_by_guest = JoinAt(*host)->Meet({.rank = 2, .size = 4, .timeout = absl::Minutes(5)}, "").status();
  });
  const absl::Status status =
      host->Meet({.rank = 0, .size = 4, .timeout = absl::Milliseconds(300)}, "").status();
  host.reset();  // a guest that came too late is turned away
  guest.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 3"));
  EXPECT_FALSE(seen_by_guest.ok());
}

TEST(TcpRendezvous, TurnsAwayWhoDoesNotKnowTheToken) {
  auto host = HostOne();
  std::thread other([&host] {
    EXPECT_EQ(JoinAt(*host)->Meet({.rank = 1, .size = 2, .token = "guess"}, "").status().code(),
              absl::StatusCode::kPermissionDenied);
    EXPECT_TRUE(JoinAt(*host)->Meet({.rank = 1, .size = 2, .token = "right"}, "").ok());
  });
  EXPECT_TRUE(host->Meet({.rank = 0, .size = 2, .token = "right"}, "").ok());
  other.join();
}

TEST(TcpRendezvous, TurnsAwayARankOutsideOfTheGroupAndStrangers) {
  auto host = HostOne();
  std::thread other([&host] {
    EXPECT_EQ(JoinAt(*host)->Meet({.rank = 2, .size = 3}, "").status().code(),
              absl::StatusCode::kInvalidArgument);
    const size_t colon = host->address().rfind(':');
    auto stranger =
        ConnectTo("127.0.0.1", std::stoi(host->address().substr(colon + 1)), absl::Now() + absl::Minutes(1));
    ASSERT_TRUE(stranger.ok());
    ASSERT_TRUE(SendAll(*stranger, "GET / HTTP/1.1\r\n\r\n", absl::InfiniteFuture()).ok());
    EXPECT_TRUE(JoinAt(*host)->Meet({.rank = 1, .size = 2}, "").ok());
  });
  EXPECT_TRUE(host->Meet({.rank = 0, .size = 2}, "").ok());
  other.join();
}

TEST(TcpRendezvous, AMemberThatGaveUpMayComeAgain) {
  auto host = HostOne();
  std::thread others([&host] {
    EXPECT_EQ(
        JoinAt(*host)->Meet({.rank = 1, .size = 3, .timeout = absl::Milliseconds(50)}, "").status().code(),
        absl::StatusCode::kDeadlineExceeded);
    std::thread second([&host] { EXPECT_TRUE(JoinAt(*host)->Meet({.rank = 2, .size = 3}, "").ok()); });
    EXPECT_TRUE(JoinAt(*host)->Meet({.rank = 1, .size = 3}, "").ok());
    second.join();
  });
  EXPECT_TRUE(host->Meet({.rank = 0, .size = 3}, "").ok());
  others.join();
}

}  // namespace
}  // namespace adaptdl::comm
