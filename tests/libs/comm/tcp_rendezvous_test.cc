#include "libs/comm/tcp_rendezvous.h"

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/clock.h"

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
  const auto take_part = [&host](int64_t group) {
    EXPECT_TRUE(JoinAt(*host)->Meet({.rank = 1, .size = 2, .group = group}, "").ok());
  };
  std::thread later(take_part, 2);
  std::thread sooner(take_part, 1);
  EXPECT_TRUE(host->Meet({.rank = 0, .size = 2, .group = 1}, "").ok());
  EXPECT_TRUE(host->Meet({.rank = 0, .size = 2, .group = 2}, "").ok());
  later.join();
  sooner.join();
}

// The member that is quicker asks for the second meeting before the first is over, in part.
TEST(TcpRendezvous, MeetingsOfOneGroupAreKeptApart) {
  auto host = HostOne();
  const auto meet = [&host](const std::string& channel) {
    auto meeting = JoinAt(*host)->Meet({.rank = 1, .size = 2, .group = 1, .channel = channel}, channel);
    ASSERT_TRUE(meeting.ok()) << meeting.status();
    EXPECT_THAT(meeting->parts, ElementsAre("host of " + channel, channel));
  };
  std::thread second(meet, "second");
  std::thread first(meet, "first");
  for (const std::string channel : {"first", "second"}) {
    const ConnectOptions options = {.rank = 0, .size = 2, .group = 1, .channel = channel};
    auto meeting = host->Meet(options, "host of " + channel);
    ASSERT_TRUE(meeting.ok()) << meeting.status();
    EXPECT_THAT(meeting->parts, ElementsAre("host of " + channel, channel));
  }
  first.join();
  second.join();
}

// A guest of `host`.
std::thread MeetIn(const TcpRendezvous& host, ConnectOptions options, absl::StatusCode expected,
                   const std::string& text = "") {
  return std::thread([&host, options, expected, text] {
    const absl::Status status = JoinAt(host)->Meet(options, "").status();
    EXPECT_EQ(status.code(), expected) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  });
}

TEST(TcpRendezvous, TurnsAwayGuestsOfAnEarlierGroup) {
  auto host = HostOne();
  std::thread late = MeetIn(*host, {.rank = 1, .size = 2, .group = 3}, absl::StatusCode::kAborted,
                            "group 3 is over: group 4 follows");
  std::thread member([&] {
    late.join();  // it is turned away while this group forms
    EXPECT_TRUE(JoinAt(*host)->Meet({.rank = 1, .size = 2, .group = 4}, "").ok());
  });
  EXPECT_TRUE(host->Meet({.rank = 0, .size = 2, .group = 4}, "").ok());
  member.join();
  // As does the host itself, at once.
  EXPECT_EQ(host->Meet({.rank = 0, .size = 2, .group = 3}, "").status().code(), absl::StatusCode::kAborted);
}

TEST(TcpRendezvous, AGroupThatDidNotFormMayBeTriedAgain) {
  auto host = HostOne();
  const ConnectOptions alone = {.rank = 0, .size = 2, .group = 7, .connect_timeout = absl::Milliseconds(1)};
  EXPECT_EQ(host->Meet(alone, "").status().code(), absl::StatusCode::kDeadlineExceeded);
  std::thread guest = MeetIn(*host, {.rank = 1, .size = 2, .group = 7}, absl::StatusCode::kOk);
  EXPECT_TRUE(host->Meet({.rank = 0, .size = 2, .group = 7}, "").ok());
  guest.join();
}

TEST(TcpRendezvous, GuestsWaitForAHostThatIsBusyElsewhere) {
  auto host = HostOne();
  auto other_host = HostOne();
  std::thread guest = MeetIn(*host, {.rank = 1, .size = 2, .group = 2}, absl::StatusCode::kOk);
  // A guest that gave up, and is still in the line when the host looks.
  {
    std::thread impatient =
        MeetIn(*host, {.rank = 1, .size = 2, .group = 2, .connect_timeout = absl::Milliseconds(20)},
               absl::StatusCode::kDeadlineExceeded);
    impatient.join();
  }
  // The host of group 2 is a guest of group 1 before.
  std::thread first([&] { EXPECT_TRUE(other_host->Meet({.rank = 0, .size = 2, .group = 1}, "").ok()); });
  EXPECT_TRUE(host->Meet({.rank = 1, .size = 2, .group = 1, .address = other_host->address()}, "").ok());
  first.join();
  EXPECT_TRUE(host->Meet({.rank = 0, .size = 2, .group = 2}, "").ok());
  guest.join();
}

TEST(TcpRendezvous, RefusingEndsTheHostsWaitAndTellsTheMembersThatAreThere) {
  auto host = HostOne();
  std::thread member = MeetIn(*host, {.rank = 1, .size = 3, .group = 5}, absl::StatusCode::kAborted,
                              "group 5 is over: group 6 follows");
  std::thread waits([&] {
    EXPECT_EQ(host->Meet({.rank = 0, .size = 3, .group = 5}, "").status().code(), absl::StatusCode::kAborted);
    // Whoever came too late to be told is turned away by the next group.
    EXPECT_TRUE(host->Meet({.rank = 0, .size = 2, .group = 6}, "").ok());
  });
  host->RefuseBelow(5);  // does not concern it
  host->RefuseBelow(6);
  host->RefuseBelow(1);  // takes nothing back
  member.join();
  std::thread next = MeetIn(*host, {.rank = 1, .size = 2, .group = 6}, absl::StatusCode::kOk);
  next.join();
  waits.join();
}

TEST(TcpRendezvous, RefusingEndsAGuestsWait) {
  auto host = HostOne();
  auto guest = JoinAt(*host);
  std::thread waits([&] {
    EXPECT_EQ(guest->Meet({.rank = 1, .size = 2, .group = 5}, "").status().code(),
              absl::StatusCode::kAborted);
  });
  guest->RefuseBelow(6);
  waits.join();
  EXPECT_EQ(guest->Meet({.rank = 1, .size = 2, .group = 5}, "").status().code(), absl::StatusCode::kAborted);
}

TEST(TcpRendezvous, RefusingEndsConnectingToAHostThatIsNotThere) {
  std::string gone;
  { gone = HostOne()->address(); }
  auto mine = HostOne();
  std::thread waits([&] {
    EXPECT_EQ(mine->Meet({.rank = 1, .size = 2, .group = 5, .address = gone}, "").status().code(),
              absl::StatusCode::kAborted);
  });
  mine->RefuseBelow(6);
  waits.join();
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
        ConnectTo("127.0.0.1", std::stoi(host->address().substr(colon + 1)), SteadyNow() + absl::Minutes(1));
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
