#include "libs/kube/client/errors.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace adaptdl::kube {
namespace {

using ::testing::HasSubstr;

absl::StatusCode CodeOf(int code, const std::string& reason = "") {
  return ErrorOfStatus({{"kind", "Status"}, {"code", code}, {"reason", reason}}).code();
}

TEST(ErrorsTest, EveryAnswerHasItsCode) {
  const std::vector<std::pair<int, absl::StatusCode>> table = {
      {400, absl::StatusCode::kInvalidArgument},  {401, absl::StatusCode::kUnauthenticated},
      {403, absl::StatusCode::kPermissionDenied}, {404, absl::StatusCode::kNotFound},
      {405, absl::StatusCode::kUnimplemented},    {406, absl::StatusCode::kUnimplemented},
      {409, absl::StatusCode::kAborted},          {410, absl::StatusCode::kOutOfRange},
      {413, absl::StatusCode::kInvalidArgument},  {415, absl::StatusCode::kUnimplemented},
      {422, absl::StatusCode::kInvalidArgument},  {429, absl::StatusCode::kResourceExhausted},
      {500, absl::StatusCode::kInternal},         {501, absl::StatusCode::kUnimplemented},
      {502, absl::StatusCode::kInternal},         {503, absl::StatusCode::kUnavailable},
      {504, absl::StatusCode::kDeadlineExceeded}, {302, absl::StatusCode::kUnknown},
      {418, absl::StatusCode::kUnknown}};
  for (const auto& [status, code] : table) {
    EXPECT_EQ(CodeOf(status), code) << status;
    EXPECT_EQ(ErrorOfAnswer(status, "").code(), code) << status;
  }
  EXPECT_EQ(CodeOf(409, "AlreadyExists"), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(CodeOf(409, "Conflict"), absl::StatusCode::kAborted);
}

TEST(ErrorsTest, WhatIsNoStatusIsNeverSuccess) {
  EXPECT_EQ(ErrorOfStatus(Json()).code(), absl::StatusCode::kUnknown);
  EXPECT_EQ(ErrorOfAnswer(502, "<html>bad gateway</html>").code(), absl::StatusCode::kInternal);
  EXPECT_THAT(ErrorOfAnswer(502, "<html>bad gateway</html>").message(), HasSubstr("bad gateway"));
  // The answer's own status counts, not what its body claims.
  EXPECT_EQ(ErrorOfAnswer(403, R"({"kind":"Status","code":404})").code(),
            absl::StatusCode::kPermissionDenied);
}

}  // namespace
}  // namespace adaptdl::kube
