// Where a front sends jobs.

#include "simulator/fleet/front.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "simulator/fleet/shared_cluster.h"

namespace adaptdl::simulator {
namespace {

Submission Job(int number, int tenant = 0, double time = 0, double seconds = 1000) {
  return {.time = time, .number = number, .tenant = tenant, .kind = 0, .solo_seconds = seconds};
}

TEST(SharedCluster, JobsShareItInEqualParts) {
  SharedCluster cluster(/*gpus=*/2, /*most_per_job=*/2);
  cluster.Add(0, 100);  // alone for 10 s at speed 2, then by half
  cluster.Add(10, 40);
  cluster.Advance(10);
  EXPECT_EQ(cluster.unfinished(), 2);
  cluster.Advance(49.5);
  EXPECT_EQ(cluster.unfinished(), 2);
  // The second ends at 50; what the first has left, 40 of 100, takes 20 more.
  cluster.Advance(50);
  EXPECT_EQ(cluster.unfinished(), 1);
  cluster.Drain();
  EXPECT_EQ(cluster.done(), 2);
  EXPECT_DOUBLE_EQ(cluster.mean_jct(), (70 + 40) / 2.0);
  EXPECT_EQ(cluster.most_unfinished(), 2);
  EXPECT_DOUBLE_EQ(cluster.work(), 140);
}

TEST(SharedCluster, NoJobHasMoreThanItMakesUseOf) {
  SharedCluster cluster(100, 4);
  cluster.Add(0, 40);
  cluster.Add(0, 40);
  cluster.Drain();
  EXPECT_DOUBLE_EQ(cluster.mean_jct(), 10);
}

TEST(Front, RandomGoesByTheGpusOfClusters) {
  Front front({.router = Router::kRandom}, {100, 300}, {1});
  std::vector<int> count(2, 0);
  for (int i = 0; i < 10000; ++i) ++count[front.Route(Job(i))];
  EXPECT_NEAR(count[1] / 10000.0, 0.75, 0.02);
}

TEST(Front, HomesAreKept) {
  const std::vector<double> gpus(50, 10);
  const std::vector<double> parts = {0.25, 0.01, 0.01};
  for (const Router router : {Router::kHome, Router::kShard}) {
    Front front({.router = router}, gpus, parts);
    // As many as hold one and a half times the part: 0.25 x 50 x 1.5.
    EXPECT_EQ(front.Homes(0).size(), 19);
    EXPECT_EQ(front.Homes(1).size(), router == Router::kHome ? 1 : 4);
    EXPECT_NE(front.Homes(1), front.Homes(2));
    const std::vector<int> homes = front.Homes(1);
    for (int i = 0; i < 200; ++i) {
      EXPECT_EQ(std::count(homes.begin(), homes.end(), front.Route(Job(i, 1))) > 0, true);
    }
  }
}

// The most jobs that a cluster has of jobs that never end.
int MostOfAll(const FrontOptions& options, int jobs) {
  Front front(options, std::vector<double>(100, 10), {1});
  for (int i = 0; i < jobs; ++i) front.Route(Job(i, 0, i, 1e9));
  int most = 0;
  for (const SharedCluster& cluster : front.clusters()) most = std::max(most, cluster.unfinished());
  return most;
}

TEST(Front, TwoChoicesLeaveClustersMoreEvenThanOne) {
  const int random = MostOfAll({.router = Router::kRandom}, 3000);
  const int fresh = MostOfAll({.router = Router::kTwoChoices, .replicas = 1, .report_seconds = 1}, 3000);
  const int stale = MostOfAll({.router = Router::kTwoChoices, .replicas = 8, .report_seconds = 200}, 3000);
  EXPECT_LE(fresh, 34);
  EXPECT_GE(random, 40);
  // Knowledge that is two jobs per cluster old is still worth nearly all of it.
  EXPECT_LE(stale, random - 4);
}

TEST(Front, TheSameSeedRoutesTheSame) {
  for (const Router router : {Router::kRandom, Router::kHome, Router::kTwoChoices, Router::kShard}) {
    Front a({.router = router, .seed = 5}, std::vector<double>(9, 10), {0.5, 0.5});
    Front b({.router = router, .seed = 5}, std::vector<double>(9, 10), {0.5, 0.5});
    for (int i = 0; i < 500; ++i) EXPECT_EQ(a.Route(Job(i, i % 2, i)), b.Route(Job(i, i % 2, i)));
  }
}

TEST(Front, AllThatIsRoutedIsDoneInTheEnd) {
  Front front({}, {10, 20, 30}, {1});
  for (int i = 0; i < 1000; ++i) front.Route(Job(i, 0, i * 10.0));
  front.Drain();
  int64_t done = 0;
  for (const SharedCluster& cluster : front.clusters()) done += cluster.done();
  EXPECT_EQ(done, 1000);
}

}  // namespace
}  // namespace adaptdl::simulator
