#include "libs/service/keep_alive.h"

#include <netinet/tcp.h>

#include <filesystem>
#include <optional>
#include <string>

#include "gtest/gtest.h"
#include "tests/libs/service/server_fixture.h"

namespace adaptdl::service {
namespace {

int Option(int socket, int level, int option) {
  int value = -1;
  socklen_t size = sizeof(value);
  return getsockopt(socket, level, option, &value, &size) == 0 ? value : -1;
}

// Whether this is the server's end of a connection to the port.
bool IsServerEnd(int socket, int port) {
  sockaddr_in6 own{};
  sockaddr_in6 peer{};
  socklen_t size = sizeof(own);
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&own), &size) != 0) return false;
  size = sizeof(peer);
  // The port is at the same place in all addresses of the Internet.
  return getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &size) == 0 &&
         (own.sin6_family == AF_INET || own.sin6_family == AF_INET6) && ntohs(own.sin6_port) == port;
}

std::optional<int> ServerEnd(int port) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int socket = std::stoi(entry.path().filename().string());
    if (IsServerEnd(socket, port)) return socket;
  }
  return std::nullopt;
}

TEST_F(ServerTest, ClientsThatVanishAreMissed) {
  Start();
  EXPECT_TRUE(ListNodes().ok());
  const std::string address = server_->address();
  const std::optional<int> socket = ServerEnd(std::stoi(address.substr(address.rfind(':') + 1)));
  ASSERT_TRUE(socket.has_value());
  EXPECT_EQ(Option(*socket, SOL_SOCKET, SO_KEEPALIVE), 1);
  EXPECT_EQ(Option(*socket, IPPROTO_TCP, TCP_KEEPIDLE), 120);
  EXPECT_EQ(Option(*socket, IPPROTO_TCP, TCP_KEEPINTVL), 10);
  EXPECT_EQ(Option(*socket, IPPROTO_TCP, TCP_KEEPCNT), 2);
  EXPECT_EQ(Option(*socket, IPPROTO_TCP, TCP_USER_TIMEOUT), 20'000);
}

TEST(KeepAliveTest, NothingListensThere) {
  // No socket of this process listens at port 1.
  EXPECT_TRUE(absl::IsNotFound(KeepClientsAlive(1, {})));
}

}  // namespace
}  // namespace adaptdl::service
