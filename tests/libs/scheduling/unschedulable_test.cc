#include "libs/scheduling/unschedulable.h"

#include "gtest/gtest.h"
#include "tests/libs/scheduling/views.h"

namespace adaptdl::scheduling {
namespace {

TEST(WhyUnschedulable, SaysWhatNoNodeOffers) {
  ClusterView view = View({Node("n0", 1000), Node("n1", 500)}, {Job("a"), Job("b"), Job("c"), Job("d")});
  view.jobs[0].request = {{kCpu, 4000}};
  view.jobs[1].request = {{kGpu, 2}};
  EXPECT_EQ(WhyUnschedulable(view.jobs[0], view), "one replica needs 4 CPUs; the largest node offers 1 CPU");
  EXPECT_EQ(WhyUnschedulable(view.jobs[1], view), "one replica needs 2 GPUs; the largest node offers 0 GPUs");
  EXPECT_EQ(WhyUnschedulable(view.jobs[2], view), "");
  // Each is there, but not on one node.
  view.nodes[1].capacity[kGpu] = 1;
  view.jobs[3].request = {{kCpu, 1000}, {kGpu, 1}};
  EXPECT_EQ(WhyUnschedulable(view.jobs[3], view),
            "one replica needs 1 CPU, 1 GPU on one node; no node offers all of that");
}

TEST(WhyUnschedulable, AnEmptyClusterMayYetGetTheNode) {
  EXPECT_EQ(WhyUnschedulable(Job("a"), View({}, {Job("a")})), "");
}

}  // namespace
}  // namespace adaptdl::scheduling
