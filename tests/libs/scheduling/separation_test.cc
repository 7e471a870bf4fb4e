#include "libs/scheduling/separation.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace adaptdl::scheduling {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SeparationTest : public testing::Test {
 protected:
  SeparationTest() {
    for (const char* id : {"a", "b", "c", "d"}) {
      view_.nodes.emplace_back();
      view_.nodes.back().id = id;
    }
    view_.nodes[1].unreachable = {"c"};
    view_.jobs.emplace_back();
    view_.jobs[0].max_replicas = 8;
  }

  std::vector<std::string> Decide(const std::vector<std::string>& allocation) {
    decision_.jobs.assign(1, JobDecision());
    decision_.jobs[0].allocation = allocation;
    decision_.jobs[0].reason = "as it is";
    Separate(view_, &decision_);
    return decision_.jobs[0].allocation;
  }

  ClusterView view_;
  Decision decision_;
};

TEST_F(SeparationTest, NodesThatReachEachOtherStayTogether) {
  EXPECT_THAT(Decide({"a", "b", "d"}), ElementsAre("a", "b", "d"));
  EXPECT_EQ(decision_.jobs[0].reason, "as it is");
}

TEST_F(SeparationTest, TheNodeWithFewerReplicasIsLeft) {
  EXPECT_THAT(Decide({"a", "b", "c", "c", "d"}), ElementsAre("a", "c", "c", "d"));
  EXPECT_THAT(decision_.jobs[0].reason, HasSubstr("not on node b"));
}

TEST_F(SeparationTest, OfEqualsTheOneWhereTheJobIsStays) {
  view_.jobs[0].allocation = {"c"};
  EXPECT_THAT(Decide({"b", "c"}), ElementsAre("c"));
  view_.jobs[0].allocation = {"b"};
  EXPECT_THAT(Decide({"b", "c"}), ElementsAre("b"));
}

TEST_F(SeparationTest, WhatIsLeftIsASizeThatTheJobMayHave) {
  view_.jobs[0].allowed_replicas = {2, 4};
  EXPECT_THAT(Decide({"a", "b", "c", "d"}), ElementsAre("a", "b"));
  view_.jobs[0].allowed_replicas = {4};
  EXPECT_THAT(Decide({"a", "b", "c", "d"}), IsEmpty());
}

TEST_F(SeparationTest, AJobThatMayNotBeMovedKeepsWhatItHas) {
  view_.jobs[0].preemptible = false;
  view_.jobs[0].allocation = {"b", "c"};
  EXPECT_THAT(Decide({"b", "c"}), ElementsAre("b", "c"));
  view_.jobs[0].allocation = {};
  EXPECT_EQ(Decide({"b", "c"}).size(), 1u);
}

}  // namespace
}  // namespace adaptdl::scheduling
