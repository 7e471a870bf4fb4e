// Two transports in one process; each side is driven by a thread of its own where both must move.

#include "libs/comm/socket_transport.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/base/clock.h"
#include "libs/comm/socket.h"

namespace adaptdl::comm {
namespace {

using Result = Transport::Result;

constexpr int64_t kTimeoutMs = 60'000;

std::unique_ptr<Transport> Make(int rank, int64_t timeout_ms = kTimeoutMs, int size = 2) {
  auto transport = CreateSocketTransport({rank, size, "127.0.0.1", timeout_ms});
  EXPECT_TRUE(transport.ok()) << transport.status();
  return transport.ok() ? *std::move(transport) : nullptr;
}

struct Pair {
  std::unique_ptr<Transport> first;
  std::unique_ptr<Transport> second;
};

Pair MakePair() {
  Pair pair{Make(0), Make(1)};
  std::string error;
  // Does not wait for the other side.
  EXPECT_EQ(pair.first->Connect(1, pair.second->address(), &error), Result::kDone) << error;
  EXPECT_EQ(pair.second->Connect(0, pair.first->address(), &error), Result::kDone) << error;
  return pair;
}

// The port in a transport's address, as anybody could find it out.
int PortIn(const std::string& address) {
  const size_t colon = address.find(':');
  return std::stoi(address.substr(32, colon - 32));
}

TEST(SocketTransportTest, MessagesOfAnySizeArriveInTheSlotThatTheyAreFor) {
  Pair pair = MakePair();
  for (const size_t size : {size_t{0}, size_t{1}, size_t{4096}, size_t{100'000}, size_t{8} << 20}) {
    std::string sent(size, '\0');
    for (size_t i = 0; i < size; ++i) sent[i] = static_cast<char>(i * 31 + size);
    std::string got(size + 10, 'x');
    const auto out = pair.first->Map(sent.data(), sent.size());
    const auto in = pair.second->Map(got.data(), got.size());
    // Another one that waits for something else.
    char other = 'o';
    const auto idle = pair.second->Map(&other, 1);
    ASSERT_EQ(idle->Receive(0, 99, 0, 1), Result::kDone);
    ASSERT_EQ(in->Receive(0, 7, 0, got.size()), Result::kDone);
    std::thread sender([&] {
      EXPECT_EQ(out->Send(1, 7, 0, sent.size()), Result::kDone);
      EXPECT_EQ(out->WaitSend(), Result::kDone);
    });
    EXPECT_EQ(in->WaitReceive(), Result::kDone);
    sender.join();
    EXPECT_EQ(got.substr(0, size), sent);
    EXPECT_EQ(got.substr(size), std::string(10, 'x'));
    EXPECT_EQ(other, 'o');
  }
}

TEST(SocketTransportTest, AMessageWaitsUntilItIsAskedFor) {
  Pair pair = MakePair();
  std::string sent = "abcdef";
  const auto out = pair.first->Map(sent.data(), sent.size());
  for (const size_t at : {0, 2, 4}) ASSERT_EQ(out->Send(1, 10 + at, at, 2), Result::kDone);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(out->WaitSend(), Result::kDone);
  std::string got(6, '.');
  const auto in = pair.second->Map(got.data(), got.size());
  // The last is asked for first, and waits for those before it.
  ASSERT_EQ(in->Receive(0, 14, 4, 2), Result::kDone);
  ASSERT_EQ(in->Receive(0, 10, 0, 2), Result::kDone);
  ASSERT_EQ(in->WaitReceive(), Result::kDone);
  EXPECT_EQ(got, "ab....");
  ASSERT_EQ(in->Receive(0, 12, 2, 2), Result::kDone);
  ASSERT_EQ(in->WaitReceive(), Result::kDone);
  ASSERT_EQ(in->WaitReceive(), Result::kDone);
  EXPECT_EQ(got, "abcdef");
}

TEST(SocketTransportTest, WhatCameBeforeTheEndIsStillDelivered) {
  Pair pair = MakePair();
  std::string sent = "last words";
  {
    const auto out = pair.first->Map(sent.data(), sent.size());
    ASSERT_EQ(out->Send(1, 1, 0, 4), Result::kDone);
    ASSERT_EQ(out->Send(1, 2, 4, 6), Result::kDone);
    ASSERT_EQ(out->WaitSend(), Result::kDone);
    ASSERT_EQ(out->WaitSend(), Result::kDone);
  }
  pair.first.reset();
  std::string got(10, '.');
  const auto in = pair.second->Map(got.data(), got.size());
  ASSERT_EQ(in->Receive(0, 1, 0, 4), Result::kDone);
  EXPECT_EQ(in->WaitReceive(), Result::kDone);
  ASSERT_EQ(in->Receive(0, 2, 4, 6), Result::kDone);
  EXPECT_EQ(in->WaitReceive(), Result::kDone);
  EXPECT_EQ(got, "last words");
  (void)in->Receive(0, 3, 0, 4);
  EXPECT_EQ(in->WaitReceive(), Result::kBroken);
  EXPECT_EQ(in->error(), "the peer has closed the connection");
}

TEST(SocketTransportTest, AMessageThatIsTooLongIsRefused) {
  Pair pair = MakePair();
  std::string sent = "twelve bytes";
  const auto out = pair.first->Map(sent.data(), sent.size());
  std::string got(16, '.');
  const auto in = pair.second->Map(got.data(), got.size());
  ASSERT_EQ(in->Receive(0, 1, 0, 4), Result::kDone);
  ASSERT_EQ(out->Send(1, 1, 0, sent.size()), Result::kDone);
  EXPECT_EQ(in->WaitReceive(), Result::kBroken);
  EXPECT_EQ(in->error(), "a message of 12 bytes came where at most 4 were expected");
  EXPECT_EQ(got, std::string(16, '.'));
}

TEST(SocketTransportTest, RefusesWhatLiesOutsideOfTheRegion) {
  Pair pair = MakePair();
  std::string memory(8, '.');
  EXPECT_EQ(pair.first->Map(memory.data(), 8)->Send(1, 1, 4, 5), Result::kBroken);
  EXPECT_EQ(pair.first->Map(memory.data(), 8)->Receive(1, 1, 9, 0), Result::kBroken);
  EXPECT_EQ(pair.first->Map(memory.data(), 8)->Send(1, 1, 1, SIZE_MAX), Result::kBroken);
}

TEST(SocketTransportTest, AbortEndsAWait) {
  Pair pair = MakePair();
  char byte = 0;
  const auto in = pair.second->Map(&byte, 1);
  ASSERT_EQ(in->Receive(0, 1, 0, 1), Result::kDone);
  std::thread other([&] { in->Abort(); });
  EXPECT_EQ(in->WaitReceive(), Result::kAborted);
  other.join();
}

TEST(SocketTransportTest, AForgottenRegionIsNotWrittenTo) {
  Pair pair = MakePair();
  std::string sent = "abcd";
  const auto out = pair.first->Map(sent.data(), sent.size());
  std::string got(4, '.');
  std::string other(4, '.');
  { ASSERT_EQ(pair.second->Map(got.data(), 4)->Receive(0, 1, 0, 4), Result::kDone); }
  const auto in = pair.second->Map(other.data(), 4);
  ASSERT_EQ(in->Receive(0, 1, 0, 4), Result::kDone);
  ASSERT_EQ(out->Send(1, 1, 0, 4), Result::kDone);
  EXPECT_EQ(in->WaitReceive(), Result::kDone);
  EXPECT_EQ(got, "....");
  EXPECT_EQ(other, "abcd");
}

TEST(SocketTransportTest, StrangersAreTurnedAwayAndKeepNobodyOut) {
  auto first = Make(0);
  auto second = Make(1);
  const int port = PortIn(second->address());
  std::vector<Socket> strangers;
  const absl::Time deadline = SteadyNow() + absl::Minutes(1);
  // Of these some say nothing, some too little, and some claim to be the member without knowing the secret.
  const std::string claims[] = {"", "x", std::string(36, '\0'), std::string(32, 'f') + std::string(4, '\0')};
  for (int i = 0; i < 200; ++i) {
    absl::StatusOr<Socket> socket = ConnectTo("127.0.0.1", port, deadline);
    ASSERT_TRUE(socket.ok()) << socket.status();
    ASSERT_TRUE(SendAll(*socket, claims[i % 4], deadline).ok());
    strangers.push_back(*std::move(socket));
  }
  std::string error;
  ASSERT_EQ(first->Connect(1, second->address(), &error), Result::kDone) << error;
  ASSERT_EQ(second->Connect(0, first->address(), &error), Result::kDone) << error;
  std::string sent = "it is me";
  std::string got(8, '.');
  const auto out = first->Map(sent.data(), sent.size());
  const auto in = second->Map(got.data(), got.size());
  ASSERT_EQ(in->Receive(0, 1, 0, 8), Result::kDone);
  ASSERT_EQ(out->Send(1, 1, 0, 8), Result::kDone);
  ASSERT_EQ(in->WaitReceive(), Result::kDone);
  EXPECT_EQ(got, sent);
}

TEST(SocketTransportTest, ConnectingEndsAtTheDeadlineOrWhenItIsClosed) {
  auto second = Make(1, /*timeout_ms=*/50);
  std::string error;
  EXPECT_EQ(second->Connect(0, "", &error), Result::kBroken);
  EXPECT_EQ(error, "it has not connected in time");
  auto closed = Make(1);
  std::thread other([&] { closed->Close(); });
  EXPECT_EQ(closed->Connect(0, "", &error), Result::kAborted);
  other.join();
}

// Until all members have met, it is only there.
TEST(SocketTransportTest, TheTimeToConnectBeginsWithIt) {
  auto first = Make(0, /*timeout_ms=*/500);
  auto second = Make(1, /*timeout_ms=*/500);
  const absl::Time met = SteadyNow() + absl::Milliseconds(600);
  while (SteadyNow() < met) continue;
  std::string error;
  EXPECT_EQ(first->Connect(1, second->address(), &error), Result::kDone) << error;
  EXPECT_EQ(second->Connect(0, first->address(), &error), Result::kDone) << error;
}

TEST(SocketTransportTest, AnAddressThatIsNoneIsRefused) {
  for (const std::string address : {"", "127.0.0.1:80", ":", "0123456789abcdef0123456789abcdef",
                                    "0123456789abcdef0123456789abcdefport:host"}) {
    auto first = Make(0);
    std::string error;
    EXPECT_EQ(first->Connect(1, address, &error), Result::kBroken) << address;
    EXPECT_EQ(error, "it has given no address");
  }
}

TEST(SocketTest, AForkedChildGivesTheParentsSocketsBack) {
  const absl::StatusOr<Socket> listener = Listen(0);
  ASSERT_TRUE(listener.ok()) << listener.status();
  Socket closed = Listen(0).value();
  const int other = open("/dev/null", O_RDONLY);
  closed.Close();
  const pid_t child = fork();
  if (child == 0) {
    CloseSocketsOfParent();
    const bool is_closed = fcntl(listener->fd(), F_GETFD) < 0 && errno == EBADF;
    _exit(is_closed && fcntl(other, F_GETFD) >= 0 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_GE(fcntl(listener->fd(), F_GETFD), 0);
  close(other);
}

}  // namespace
}  // namespace adaptdl::comm
