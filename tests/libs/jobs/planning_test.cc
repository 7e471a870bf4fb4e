#include "libs/jobs/planning.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace adaptdl::jobs {
namespace {

using ::testing::ElementsAre;

TEST(ChooseMembersTest, LowestRanksStayOnEachNode) {
  const std::vector<PlanMember> current = {{"a", "n1"}, {"b", "n2"}, {"c", "n1"}, {"d", "n2"}};
  const Target target = ChooseMembers(current, {}, {"n2", "n3", "n2", "n1"}, true);
  EXPECT_THAT(target.members, ElementsAre(PlanMember{"a", "n1"}, PlanMember{"b", "n2"}, PlanMember{"d", "n2"},
                                          PlanMember{"", "n3"}));
  EXPECT_EQ(target.survivors, 3);
}

TEST(ChooseMembersTest, AllStayUntilNewcomersOnOtherNodesCan) {
  const Target target = ChooseMembers({{"a", "n1"}}, {{"x", "n3"}, {"y", "n2"}}, {"n2", "n2"}, true);
  EXPECT_THAT(target.members,
              ElementsAre(PlanMember{"a", "n1"}, PlanMember{"y", "n2"}, PlanMember{"", "n2"}));
  EXPECT_THAT(ChooseMembers({{"a", "n1"}}, {}, {"n2"}, false).members, ElementsAre(PlanMember{"a", "n1"}));
}

TEST(AllowedSizeTest, RespectsBoundsAndList) {
  Job job;
  job.min_replicas = 2;
  job.max_replicas = 8;
  job.allowed_replicas = {2, 4};
  EXPECT_EQ(LargestAllowedSize(job, 3), 2);
  EXPECT_EQ(LargestAllowedSize(job, 1), 0);
  EXPECT_TRUE(AllowsSize(job, 4));
  EXPECT_FALSE(AllowsSize(job, 8));
}

}  // namespace
}  // namespace adaptdl::jobs
