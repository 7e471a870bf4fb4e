#include "libs/rpc/status.h"

#include "gtest/gtest.h"
#include "libs/rpc/status_code.h"

namespace adaptdl::rpc {
namespace {

TEST(StatusTest, EveryCodeSurvivesTheTripBothWays) {
  for (int code = 0; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), code == 0 ? "" : "why \xc3\xa9");
    const grpc::Status sent = ToGrpcStatus(status);
    EXPECT_EQ(static_cast<int>(sent.error_code()), code);
    EXPECT_EQ(FromGrpcStatus(sent), status);
  }
}

TEST(StatusTest, TheCodesAreTheSameNames) {
  EXPECT_EQ(ToGrpcStatus(absl::AbortedError("x")).error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(ToGrpcStatus(absl::FailedPreconditionError("x")).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(ToGrpcStatus(absl::UnauthenticatedError("x")).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_TRUE(absl::IsDataLoss(FromGrpcStatus(grpc::Status(grpc::StatusCode::DATA_LOSS, "x"))));
}

TEST(StatusTest, AConnectionThatBreaksInACallIsUnavailable) {
  const grpc::Status broken(grpc::StatusCode::UNKNOWN, "Stream removed");
  EXPECT_EQ(CodeOf(broken), grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(absl::IsUnavailable(FromGrpcStatus(broken)));
  EXPECT_EQ(CodeOf(grpc::Status(grpc::StatusCode::UNKNOWN, "x")), grpc::StatusCode::UNKNOWN);
  EXPECT_EQ(CodeOf(grpc::Status(grpc::StatusCode::INTERNAL, "Stream removed")), grpc::StatusCode::INTERNAL);
}

TEST(StatusTest, CodesThatDoNotExistBecomeUnknown) {
  const absl::Status status(static_cast<absl::StatusCode>(999), "odd");
  EXPECT_FALSE(ToGrpcStatus(status).ok());
  EXPECT_EQ(FromGrpcStatus(ToGrpcStatus(status)).code(), absl::StatusCode::kUnknown);
}

}  // namespace
}  // namespace adaptdl::rpc
