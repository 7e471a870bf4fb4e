#include "libs/scheduling/policies.h"

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/libs/scheduling/views.h"

namespace adaptdl::scheduling {
namespace {

using ::testing::HasSubstr;

TEST(PoliciesTest, EveryNameMakesAPolicyThatDecides) {
  const ClusterView view = View({Node("n0", 2000)}, {Job("a", 2)});
  for (const std::string& name : PolicyNames()) {
    const auto policy = MakePolicy(name);
    ASSERT_TRUE(policy.ok()) << policy.status();
    EXPECT_EQ((*policy)->name(), name);
    EXPECT_EQ((*policy)->Decide(view, 1).jobs.size(), 1u) << name;
  }
}

TEST(PoliciesTest, UnknownNamesAreRefusedWithTheList) {
  const absl::Status status = MakePolicy("magic").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("\"magic\"; choose one of goodput, greedy, pollux, "));
}

}  // namespace
}  // namespace adaptdl::scheduling
