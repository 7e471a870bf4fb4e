#include "services/supervisor/calls/admission.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/base/manual_clock.h"
#include "libs/rpc/retry_info.h"

namespace adaptdl::supervisor {
namespace {

class AdmissionTest : public testing::Test {
 protected:
  std::unique_ptr<Admission> Make(const AdmissionOptions& options) {
    auto admission = std::make_unique<Admission>(options, &clock_);
    admission->SetOnRefused([this](const char* cause) { refused_.push_back(cause); });
    return admission;
  }

  ManualClock clock_;
  std::vector<std::string> refused_;
};

TEST_F(AdmissionTest, ACallerHasItsBurstAndThenItsRate) {
  const auto admission = Make({.calls_per_second = 10, .burst = 3});
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(admission->Call("a").ok());
  const absl::Status full = admission->Call("a");
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(rpc::RetryDelayOf(full), absl::Milliseconds(100));
  EXPECT_TRUE(admission->Call("b").ok()) << "others are not concerned";
  clock_.Advance(absl::Milliseconds(100));
  EXPECT_TRUE(admission->Call("a").ok());
  EXPECT_FALSE(admission->Call("a").ok());
  clock_.Advance(absl::Hours(1));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(admission->Call("a").ok());
  EXPECT_FALSE(admission->Call("a").ok());
  EXPECT_EQ(refused_, std::vector<std::string>(3, "call_rate"));
}

// Whatever a caller does, it gets no more than burst + rate * time; and one that keeps to the rate gets all.
TEST_F(AdmissionTest, TheRateHoldsInTheLongRunForManyCallers) {
  const auto admission = Make({.calls_per_second = 50, .burst = 20});
  int greedy = 0;
  for (int step = 0; step < 10'000; ++step) {
    clock_.Advance(absl::Milliseconds(1));
    for (int i = 0; i < 3; ++i) greedy += admission->Call("greedy").ok();
    if (step % 20 == 0) {
      EXPECT_TRUE(admission->Call("modest").ok());
    }
    admission->Call(absl::StrCat("passer-by-", step)).IgnoreError();
  }
  EXPECT_LE(greedy, 20 + 50 * 10);
  EXPECT_GE(greedy, 50 * 10 - 1);
}

TEST_F(AdmissionTest, AZeroRateIsNoBound) {
  const auto admission = Make({.calls_per_second = 0, .burst = 0});
  for (int i = 0; i < 10'000; ++i) ASSERT_TRUE(admission->Call("a").ok());
}

TEST_F(AdmissionTest, StreamsAreBoundedWhileTheyAreOpen) {
  const auto admission = Make({.streams = 2});
  auto first = admission->Stream("a");
  auto second = admission->Stream("a");
  ASSERT_TRUE(first.ok() && second.ok());
  const auto third = admission->Stream("a");
  EXPECT_EQ(third.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(rpc::RetryDelayOf(third.status()).has_value());
  EXPECT_TRUE(admission->Stream("b").ok());
  first->reset();
  EXPECT_TRUE(admission->Stream("a").ok());
  EXPECT_EQ(refused_, std::vector<std::string>{"streams"});
}

TEST_F(AdmissionTest, ChangesAreShedWhileTheQueueIsLong) {
  const auto admission = Make({.calls_per_second = 1, .burst = 1, .queue = 100});
  const absl::Status shed = admission->Change("a", 100);
  EXPECT_EQ(shed.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(rpc::RetryDelayOf(shed).has_value());
  EXPECT_TRUE(admission->Change("a", 99).ok()) << "what was shed has cost the caller nothing";
  EXPECT_FALSE(admission->Change("a", 0).ok());
  EXPECT_EQ(refused_, (std::vector<std::string>{"queue", "call_rate"}));
}

}  // namespace
}  // namespace adaptdl::supervisor
