#include "simulator/policies/policies.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "simulator/policies/all_policies.h"
#include "tests/libs/scheduling/views.h"

namespace adaptdl::simulator {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> NamesOf(const Policies& policies) {
  std::vector<std::string> names;
  for (const auto& [name, make] : policies) names.push_back(name);
  return names;
}

TEST(PoliciesTest, EveryNameMakesAPolicyThatDecides) {
  const scheduling::ClusterView view =
      scheduling::View({scheduling::Node("n0", 2000)}, {scheduling::Job("a", 2)});
  for (const auto& [name, make] : AllPolicies()) {
    const auto policy = make();
    EXPECT_EQ(policy->name(), name);
    EXPECT_EQ(policy->Decide(view, 1).jobs.size(), 1u) << name;
  }
}

TEST(PoliciesTest, OnlySiaNeedsASolver) {
  EXPECT_THAT(NamesOf(PoliciesWithoutSolver()), ElementsAre("goodput", "pollux", "pollux-master"));
  EXPECT_THAT(NamesOf(AllPolicies()), ElementsAre("goodput", "pollux", "pollux-master", "sia"));
}

}  // namespace
}  // namespace adaptdl::simulator
