#include "libs/rpc/endpoints.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/rpc/channel.h"

namespace adaptdl::rpc {
namespace {

using ::testing::ElementsAre;

TEST(EndpointsTest, ListsAreRead) {
  EXPECT_THAT(*ParseEndpoints("--supervisor", "a:7100"), ElementsAre("a:7100"));
  EXPECT_THAT(*ParseEndpoints("--supervisor", "a:7100, b:7101,[::1]:7102"),
              ElementsAre("a:7100", "b:7101", "[::1]:7102"));
}

TEST(EndpointsTest, WhatIsNoListIsNamed) {
  for (const char* text : {"", "a", "a:", ":7100", "a:0", "a:65536", "a:7100,", ",a:7100", "a:7100,,b:7100",
                           "a b:7100", "a:7100,a:7100"}) {
    const absl::Status status = ParseEndpoints("--supervisor", text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_NE(status.message().find("--supervisor"), std::string::npos) << status;
  }
}

TEST(EndpointsTest, TheNextOneIsTakenOncePerFailure) {
  std::vector<std::string> made;
  Endpoints endpoints({"a:1", "b:1", "c:1"}, [&](const std::string& address) {
    made.push_back(address);
    return CreateChannel(address, Plaintext());
  });
  EXPECT_TRUE(endpoints.several());
  const Endpoint first = endpoints.current();
  EXPECT_EQ(first.address, "a:1");
  EXPECT_EQ(endpoints.current().channel, first.channel);
  endpoints.GoOn(first);
  endpoints.GoOn(first);  // Another thread that has failed there, too.
  EXPECT_EQ(endpoints.current().address, "b:1");
  endpoints.GoOn(endpoints.current());
  endpoints.GoOn(endpoints.current());
  EXPECT_EQ(endpoints.current().address, "a:1");
  EXPECT_EQ(endpoints.current().channel, first.channel);
  EXPECT_THAT(made, ElementsAre("a:1", "b:1", "c:1"));
}

TEST(EndpointsTest, OneIsItsOwnNext) {
  Endpoints endpoints({"a:1"}, Plaintext());
  EXPECT_FALSE(endpoints.several());
  endpoints.GoOn(endpoints.current());
  EXPECT_EQ(endpoints.current().address, "a:1");
}

}  // namespace
}  // namespace adaptdl::rpc
