// Both ends of a measurement, over the loopback.

#include "services/worker/netperf/netperf.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace adaptdl::netperf {
namespace {

using ::testing::Each;
using ::testing::Gt;
using ::testing::SizeIs;

const std::string kToken(kTokenSize, 't');

// What a caller who says `greeting` is left with: 0, the server has hung up.
ssize_t AnswerTo(int port, const std::string& greeting) {
  const UniqueFd caller(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(caller.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) return -1;
  if (send(caller.get(), greeting.data(), greeting.size(), MSG_NOSIGNAL) < 0) return -1;
  char answer = 0;
  return recv(caller.get(), &answer, 1, 0);
}

class NetperfTest : public testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<Listener> listener = Listen();
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
    server_ = std::thread([this] { served_ = Serve(listener_, kToken); });
  }
  void TearDown() override {
    // Ends who still waits for a caller.
    shutdown(listener_.socket.get(), SHUT_RDWR);
    if (server_.joinable()) server_.join();
  }

  Listener listener_;
  absl::Status served_;
  std::thread server_;
  RealClock clock_;
};

TEST_F(NetperfTest, MeasuresRoundTripsAndBandwidth) {
  const absl::StatusOr<Measurement> measurement = Measure("localhost", listener_.port, kToken, clock_);
  ASSERT_TRUE(measurement.ok()) << measurement.status();
  EXPECT_THAT(measurement->round_trip_seconds, SizeIs(100));
  EXPECT_THAT(measurement->round_trip_seconds, Each(Gt(0)));
  EXPECT_THAT(measurement->bytes_per_second, SizeIs(5));
  EXPECT_THAT(measurement->bytes_per_second, Each(Gt(0)));
  server_.join();
  EXPECT_TRUE(served_.ok()) << served_;
}

TEST_F(NetperfTest, TurnsStrangersAwayAndWaitsForTheExpectedCaller) {
  EXPECT_EQ(AnswerTo(listener_.port, std::string(kTokenSize, 'x')), 0);
  EXPECT_TRUE(Measure("127.0.0.1", listener_.port, kToken, clock_).ok());
}

TEST_F(NetperfTest, RefusesAMessageWithoutBounds) {
  EXPECT_EQ(AnswerTo(listener_.port, kToken + std::string(8, '\xff')), 0);
  server_.join();
  EXPECT_TRUE(absl::IsInvalidArgument(served_)) << served_;
}

TEST(NetperfFailureTest, SaysWhereNobodyAnswers) {
  int port = 0;
  {
    const absl::StatusOr<Listener> listener = Listen();
    ASSERT_TRUE(listener.ok());
    port = listener->port;
  }
  const absl::Status status = Measure("127.0.0.1", port, kToken, RealClock()).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("127.0.0.1"));
}

TEST(NetperfLinesTest, AreDocumentsOfOneLine) {
  EXPECT_EQ(PortLine(5), R"({"port":5})");
  EXPECT_EQ(MeasurementLine({.round_trip_seconds = {0.5}, .bytes_per_second = {2.0}}),
            R"({"bytesPerSecond":[2.0],"roundTripSeconds":[0.5]})");
  EXPECT_EQ(ErrorLine(absl::UnavailableError("a\n\xff")), "{\"error\":\"a\\n\uFFFD\"}");
}

}  // namespace
}  // namespace adaptdl::netperf
