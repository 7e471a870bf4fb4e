#include "services/supervisor/scheduling/allocation_pages.h"

#include <string>

#include "gtest/gtest.h"

namespace adaptdl::supervisor {
namespace {

v1::ApplyAllocationsRequest Page(const std::string& id, int page, bool more) {
  v1::ApplyAllocationsRequest request;
  request.set_request_id(id);
  request.set_page(page);
  request.set_more(more);
  request.set_snapshot_version(3);
  request.set_lease_term(4);
  request.add_allocations()->set_name(id + std::to_string(page));
  return request;
}

TEST(AllocationPagesTest, AreOneDecisionWhenTheLastHasCome) {
  AllocationPages pages;
  for (int i = 0; i < 2; ++i) {
    const auto kept = pages.Take(Page("a", i, true));
    ASSERT_TRUE(kept.ok()) << kept.status();
    EXPECT_FALSE(kept->has_value());
  }
  const auto whole = pages.Take(Page("a", 2, false));
  ASSERT_TRUE(whole.ok()) << whole.status();
  ASSERT_TRUE(whole->has_value());
  EXPECT_EQ((*whole)->request_id(), "a");
  EXPECT_EQ((*whole)->snapshot_version(), 3);
  EXPECT_EQ((*whole)->lease_term(), 4);
  EXPECT_EQ((*whole)->page(), 0);
  EXPECT_FALSE((*whole)->more());
  ASSERT_EQ((*whole)->allocations_size(), 3);
  EXPECT_EQ((*whole)->allocations(2).name(), "a2");
  // It is gone then.
  EXPECT_EQ(pages.Take(Page("a", 3, false)).status().code(), absl::StatusCode::kAborted);
}

TEST(AllocationPagesTest, OnlyWhatFollowsIsTaken) {
  AllocationPages pages;
  EXPECT_EQ(pages.Take(Page("a", 1, true)).status().code(), absl::StatusCode::kAborted);
  ASSERT_TRUE(pages.Take(Page("a", 0, true)).ok());
  EXPECT_EQ(pages.Take(Page("a", 2, true)).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(pages.Take(Page("b", 1, false)).status().code(), absl::StatusCode::kAborted);
  v1::ApplyAllocationsRequest other_lease = Page("a", 1, false);
  other_lease.set_lease_term(5);
  EXPECT_EQ(pages.Take(other_lease).status().code(), absl::StatusCode::kAborted);
  // A decision that begins drops the one before.
  ASSERT_TRUE(pages.Take(Page("b", 0, true)).ok());
  EXPECT_EQ(pages.Take(Page("a", 1, false)).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ((*pages.Take(Page("b", 1, false)))->allocations_size(), 2);
}

TEST(AllocationPagesTest, AreBounded) {
  AllocationPages pages(100);
  ASSERT_TRUE(pages.Take(Page("a", 0, true)).ok());
  v1::ApplyAllocationsRequest large = Page("a", 1, true);
  large.mutable_allocations(0)->set_reason(std::string(200, 'x'));
  EXPECT_EQ(pages.Take(large).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(pages.Take(Page("a", 2, false)).status().code(), absl::StatusCode::kAborted);
}

}  // namespace
}  // namespace adaptdl::supervisor
