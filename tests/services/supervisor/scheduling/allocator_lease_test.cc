#include "services/supervisor/scheduling/allocator_lease.h"

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace adaptdl::supervisor {
namespace {

const absl::Time kStart = absl::FromUnixSeconds(1000);

TEST(AllocatorLeaseTest, OneHoldsItUntilItIsNotRenewed) {
  AllocatorLease lease(absl::Seconds(3));
  const auto first = lease.Acquire("one", 0, kStart);
  EXPECT_TRUE(first.granted());
  EXPECT_FALSE(lease.Acquire("two", 0, kStart + absl::Seconds(2)).granted());
  EXPECT_TRUE(lease.Acquire("one", 0, kStart + absl::Seconds(2)).granted());
  EXPECT_FALSE(lease.Acquire("two", 0, kStart + absl::Seconds(4)).granted());
  const auto second = lease.Acquire("two", 0, kStart + absl::Seconds(5));
  EXPECT_TRUE(second.granted());
  EXPECT_GT(second.lease_term(), first.lease_term());
  EXPECT_EQ(lease.Acquire("one", 0, kStart + absl::Seconds(5)).holder(), "two");
}

TEST(AllocatorLeaseTest, OnlyTheHolderDecides) {
  AllocatorLease lease(absl::Seconds(3));
  // Nobody has asked for it: an allocator that knows no lease may decide.
  EXPECT_TRUE(lease.Check(0, kStart).ok());
  const int64_t first = lease.Acquire("one", 0, kStart).lease_term();
  EXPECT_TRUE(lease.Check(first, kStart).ok());
  EXPECT_EQ(lease.Check(0, kStart).code(), absl::StatusCode::kFailedPrecondition);
  lease.Acquire("two", 0, kStart + absl::Seconds(3));
  EXPECT_EQ(lease.Check(first, kStart + absl::Seconds(3)).code(), absl::StatusCode::kFailedPrecondition);
}

TEST(AllocatorLeaseTest, ALaterSupervisorGivesLargerNumbers) {
  AllocatorLease before(absl::Seconds(3));
  int64_t last = 0;
  for (int i = 0; i < 100; ++i) {
    last = before.Acquire(i % 2 == 0 ? "one" : "two", 5, kStart + i * absl::Minutes(1)).lease_term();
  }
  AllocatorLease after(absl::Seconds(3));
  EXPECT_GT(after.Acquire("one", 6, kStart).lease_term(), last);
}

}  // namespace
}  // namespace adaptdl::supervisor
