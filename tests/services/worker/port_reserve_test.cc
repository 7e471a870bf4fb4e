#include "services/worker/port_reserve.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace adaptdl::worker {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::Ge;
using ::testing::IsEmpty;
using ::testing::Le;
using ::testing::Not;
using ::testing::SizeIs;

// Whether somebody who does not reuse addresses can listen there.
bool CanListen(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  address.sin_port = htons(static_cast<uint16_t>(port));
  const bool free =
      bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 && listen(fd, 1) == 0;
  close(fd);
  return free;
}

TEST(PortReserveTest, KeepsOthersOffItsPorts) {
  const PortReserve reserve({.first = 21000, .last = 21999, .count = 8});
  const std::vector<int> ports = reserve.Ports();
  EXPECT_THAT(ports, AllOf(SizeIs(8), Each(AllOf(Ge(21000), Le(21999)))));
  EXPECT_TRUE(std::is_sorted(ports.begin(), ports.end()));
  EXPECT_FALSE(std::any_of(ports.begin(), ports.end(), CanListen));
}

TEST(PortReserveTest, AReleasedPortIsFreeAndReplaced) {
  PortReserve reserve({.first = 22000, .last = 22999, .count = 4});
  const int port = reserve.Ports().front();
  EXPECT_TRUE(reserve.Release(port));
  EXPECT_TRUE(CanListen(port));
  EXPECT_THAT(reserve.Ports(), AllOf(SizeIs(4), Not(Contains(port))));
  EXPECT_FALSE(reserve.Release(port)) << "it was given away before";
  EXPECT_FALSE(reserve.Release(0));
}

TEST(PortReserveTest, TakesWhatThereIs) {
  PortReserve all({.first = 23000, .last = 23001, .count = 2});
  const PortReserve none({.first = 23000, .last = 23001, .count = 2});
  EXPECT_THAT(none.Ports(), IsEmpty());
  // Nothing else is left to replace it by.
  EXPECT_TRUE(all.Release(all.Ports().front()));
  EXPECT_THAT(all.Ports(), SizeIs(1));
}

}  // namespace
}  // namespace adaptdl::worker
