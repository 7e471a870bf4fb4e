#include "libs/base/token_buckets.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace adaptdl {
namespace {

const absl::Time kStart = absl::FromUnixSeconds(1'000'000'000);

TEST(TokenBucketsTest, GivesABurstAndThenOnePerPeriodToEachCaller) {
  TokenBuckets buckets(3, absl::Seconds(5));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(buckets.Take("a", kStart));
  EXPECT_FALSE(buckets.Take("a", kStart));
  EXPECT_EQ(buckets.Wait("a", kStart), absl::Seconds(5));
  EXPECT_EQ(buckets.Wait("b", kStart), absl::ZeroDuration());
  EXPECT_TRUE(buckets.Take("b", kStart));
  EXPECT_FALSE(buckets.Take("a", kStart + absl::Seconds(4)));
  EXPECT_TRUE(buckets.Take("a", kStart + absl::Seconds(5)));
  EXPECT_FALSE(buckets.Take("a", kStart + absl::Seconds(5)));
  // Nobody saves up more than a burst.
  const absl::Time later = kStart + absl::Hours(1);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(buckets.Take("a", later));
  EXPECT_FALSE(buckets.Take("a", later));
}

TEST(TokenBucketsTest, AClockThatIsSetBackCostsNoMoreThanAnEmptyBucket) {
  TokenBuckets buckets(2, absl::Seconds(5));
  EXPECT_TRUE(buckets.Take("a", kStart));
  const absl::Time back = kStart - absl::Hours(1);
  EXPECT_FALSE(buckets.Take("a", back));
  EXPECT_TRUE(buckets.Take("a", back + absl::Seconds(5)));
}

TEST(TokenBucketsTest, ForgetsCallersThatHaveBeenQuiet) {
  TokenBuckets buckets(2, absl::Seconds(5));
  for (int i = 0; i < 100'000; ++i) {
    buckets.Take(absl::StrCat("caller-", i), kStart + i * absl::Milliseconds(100));
  }
  EXPECT_LE(buckets.size(), 1024u);
}

}  // namespace
}  // namespace adaptdl
