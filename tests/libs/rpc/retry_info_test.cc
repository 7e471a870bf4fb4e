#include "libs/rpc/retry_info.h"

#include <string>

#include "absl/strings/cord.h"
#include "gtest/gtest.h"
#include "libs/rpc/status.h"

namespace adaptdl::rpc {
namespace {

TEST(RetryInfoTest, TravelsWithAnErrorThroughGrpc) {
  const absl::Status full =
      WithRetryDelay(absl::ResourceExhaustedError("too many"), absl::Milliseconds(2500));
  const grpc::Status sent = ToGrpcStatus(full);
  EXPECT_EQ(sent.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(sent.error_message(), "too many");
  const absl::Status received = FromGrpcStatus(sent);
  EXPECT_EQ(received, full);
  EXPECT_EQ(RetryDelayOf(received), absl::Milliseconds(2500));
}

TEST(RetryInfoTest, ErrorsWithoutItSayNothing) {
  const absl::Status plain = absl::ResourceExhaustedError("x");
  EXPECT_FALSE(RetryDelayOf(plain).has_value());
  EXPECT_TRUE(ToGrpcStatus(plain).error_details().empty());
  EXPECT_FALSE(RetryDelayOf(absl::OkStatus()).has_value());
  EXPECT_TRUE(WithRetryDelay(absl::OkStatus(), absl::Seconds(1)).ok());
}

TEST(RetryInfoTest, WhatAPeerSendsNeedNotMakeSense) {
  const grpc::Status garbage(grpc::StatusCode::INTERNAL, "text", "\xff\xff no protobuf");
  EXPECT_EQ(FromGrpcStatus(garbage), absl::InternalError("text"));
  EXPECT_EQ(RetryDelayOf(WithRetryDelay(absl::InternalError("x"), -absl::Seconds(5))), absl::ZeroDuration());
}

}  // namespace
}  // namespace adaptdl::rpc
