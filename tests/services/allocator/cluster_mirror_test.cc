#include "services/allocator/cluster_mirror.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/services/allocator/snapshots.h"

namespace adaptdl::allocator {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const absl::Time kNow = absl::FromUnixSeconds(1000);

v1::ClusterSnapshot TwoJobs() {
  v1::ClusterSnapshot cluster;
  cluster.set_version(7);
  *cluster.add_jobs() = MakeJob("z");
  *cluster.add_jobs() = MakeJob("a");
  *cluster.add_nodes() = MakeNode("n0");
  return cluster;
}

v1::WatchClusterResponse Change(int64_t version) {
  v1::WatchClusterResponse message;
  message.mutable_change()->set_version(version);
  return message;
}

std::vector<std::string> JobsOf(const ClusterMirror& mirror) {
  const v1::ClusterSnapshot cluster = mirror.Snapshot(kNow);
  std::vector<std::string> names;
  for (const v1::Job& job : cluster.jobs()) names.push_back(job.name());
  return names;
}

std::vector<std::string> NodesOf(const ClusterMirror& mirror) {
  const v1::ClusterSnapshot cluster = mirror.Snapshot(kNow);
  std::vector<std::string> ids;
  for (const v1::Node& node : cluster.nodes()) ids.push_back(node.node_id());
  return ids;
}

TEST(ClusterMirrorTest, KnowsNothingBeforeASnapshot) {
  ClusterMirror mirror;
  v1::WatchClusterResponse change = Change(3);
  *change.mutable_change()->add_jobs() = MakeJob("a");
  EXPECT_FALSE(mirror.Take(change, kNow));
  EXPECT_FALSE(mirror.Take({}, kNow));
  EXPECT_FALSE(mirror.known());
  EXPECT_TRUE(mirror.Take(Whole(TwoJobs()), kNow));
  EXPECT_TRUE(mirror.known());
  EXPECT_EQ(mirror.version(), 7);
}

TEST(ClusterMirrorTest, KeepsTheOrderOfSubmission) {
  ClusterMirror mirror;
  mirror.Take(Whole(TwoJobs()), kNow);
  v1::WatchClusterResponse change = Change(8);
  *change.mutable_change()->add_jobs() = MakeJob("a");
  *change.mutable_change()->add_jobs() = MakeJob("m");
  *change.mutable_change()->add_jobs() = MakeJob("b");
  EXPECT_TRUE(mirror.Take(change, kNow));
  EXPECT_THAT(JobsOf(mirror), ElementsAre("z", "a", "m", "b"));
}

TEST(ClusterMirrorTest, ForgetsWhatIsGone) {
  ClusterMirror mirror;
  mirror.Take(Whole(TwoJobs()), kNow);
  v1::WatchClusterResponse change = Change(8);
  change.mutable_change()->add_gone_jobs("uid-z");
  change.mutable_change()->add_gone_jobs("uid-unknown");
  change.mutable_change()->add_gone_nodes("n0");
  change.mutable_change()->add_gone_nodes("unknown");
  *change.mutable_change()->add_nodes() = MakeNode("n1");
  EXPECT_TRUE(mirror.Take(change, kNow));
  EXPECT_THAT(JobsOf(mirror), ElementsAre("a"));
  EXPECT_THAT(NodesOf(mirror), ElementsAre("n1"));
  // A snapshot makes all that was heard before void.
  v1::ClusterSnapshot empty;
  empty.set_version(9);
  EXPECT_TRUE(mirror.Take(Whole(empty), kNow));
  EXPECT_THAT(JobsOf(mirror), IsEmpty());
  EXPECT_THAT(NodesOf(mirror), IsEmpty());
}

TEST(ClusterMirrorTest, QuotasComeAllOrNone) {
  v1::ClusterSnapshot cluster = TwoJobs();
  cluster.add_quotas()->set_namespace_("team");
  ClusterMirror mirror;
  mirror.Take(Whole(cluster), kNow);
  mirror.Take(Change(8), kNow);
  EXPECT_EQ(mirror.Snapshot(kNow).quotas_size(), 1);
  v1::WatchClusterResponse change = Change(9);
  change.mutable_change()->mutable_quotas();
  mirror.Take(change, kNow);
  EXPECT_EQ(mirror.Snapshot(kNow).quotas_size(), 0);
}

TEST(ClusterMirrorTest, PagesCountWhenTheLastHasCome) {
  ClusterMirror mirror;
  v1::ClusterSnapshot cluster = TwoJobs();
  v1::WatchClusterResponse first = Whole(cluster);
  first.set_more(true);
  EXPECT_FALSE(mirror.Take(first, kNow));
  EXPECT_FALSE(mirror.known());
  v1::ClusterSnapshot rest;
  rest.set_version(7);
  *rest.add_jobs() = MakeJob("m");
  *rest.add_nodes() = MakeNode("n1");
  EXPECT_TRUE(mirror.Take(Whole(rest), kNow));
  EXPECT_THAT(JobsOf(mirror), ElementsAre("z", "a", "m"));
  EXPECT_THAT(NodesOf(mirror), ElementsAre("n0", "n1"));

  v1::WatchClusterResponse change = Change(8);
  *change.mutable_change()->add_jobs() = MakeJob("b");
  change.mutable_change()->mutable_quotas()->add_quotas()->set_namespace_("one");
  change.set_more(true);
  EXPECT_FALSE(mirror.Take(change, kNow));
  EXPECT_EQ(mirror.version(), 7);
  EXPECT_THAT(JobsOf(mirror), ElementsAre("z", "a", "m"));
  v1::WatchClusterResponse last = Change(8);
  last.mutable_change()->mutable_quotas()->add_quotas()->set_namespace_("two");
  last.mutable_change()->add_gone_jobs("uid-a");
  EXPECT_TRUE(mirror.Take(last, kNow));
  EXPECT_THAT(JobsOf(mirror), ElementsAre("z", "m", "b"));
  EXPECT_EQ(mirror.Snapshot(kNow).quotas_size(), 2);
}

TEST(ClusterMirrorTest, PagesOfAStreamThatEndedAreVoid) {
  ClusterMirror mirror;
  mirror.Take(Whole(TwoJobs()), kNow);
  v1::WatchClusterResponse half = Whole(TwoJobs());
  half.set_more(true);
  mirror.Take(half, kNow);
  mirror.BeginStream();
  EXPECT_THAT(JobsOf(mirror), ElementsAre("z", "a"));
  v1::ClusterSnapshot other;
  other.set_version(9);
  *other.add_jobs() = MakeJob("m");
  EXPECT_TRUE(mirror.Take(Whole(other), kNow));
  EXPECT_THAT(JobsOf(mirror), ElementsAre("m"));
}

TEST(ClusterMirrorTest, OnlyNewsThatMatterCallForADecision) {
  ClusterMirror mirror;
  EXPECT_TRUE(mirror.Take(Whole(TwoJobs()), kNow));
  EXPECT_FALSE(mirror.Take(Whole(TwoJobs()), kNow));
  EXPECT_FALSE(mirror.Take(Change(7), kNow));
  EXPECT_TRUE(mirror.Take(Change(8), kNow));
  v1::WatchClusterResponse change = Change(8);
  v1::Job* job = change.mutable_change()->add_jobs();
  *job = MakeJob("a");
  job->mutable_status()->mutable_progress()->set_optimizer_steps(5);
  EXPECT_FALSE(mirror.Take(change, kNow));
  *job->mutable_status()->mutable_hints() = MakeHints(1);
  EXPECT_TRUE(mirror.Take(change, kNow));
  job->mutable_status()->mutable_hints()->mutable_perf_params()->set_alpha_c(0.002);
  EXPECT_FALSE(mirror.Take(change, kNow));
  EXPECT_EQ(mirror.Snapshot(kNow).jobs(1).status().hints().perf_params().alpha_c(), 0.002);
}

TEST(ClusterMirrorTest, JobsThatRunRunOn) {
  v1::ClusterSnapshot cluster = TwoJobs();
  for (v1::Job& job : *cluster.mutable_jobs()) {
    job.mutable_status()->mutable_running_time()->set_seconds(10);
    job.mutable_status()->mutable_running_time()->set_nanos(700'000'000);
  }
  cluster.mutable_jobs(0)->mutable_status()->set_phase(v1::JOB_PHASE_RUNNING);
  ClusterMirror mirror;
  mirror.Take(Whole(cluster), kNow);
  const v1::ClusterSnapshot later = mirror.Snapshot(kNow + absl::Milliseconds(2500));
  EXPECT_EQ(later.jobs(0).status().running_time().seconds(), 13);
  EXPECT_EQ(later.jobs(0).status().running_time().nanos(), 200'000'000);
  EXPECT_EQ(later.jobs(1).status().running_time().seconds(), 10);
  // A clock that was set back takes nothing away.
  EXPECT_EQ(mirror.Snapshot(kNow - absl::Hours(1)).jobs(0).status().running_time().seconds(), 10);
}

TEST(ClusterMirrorTest, SaysOnceThatANodeGoesAway) {
  ClusterMirror mirror;
  mirror.Take(Whole(TwoJobs()), kNow);
  v1::WatchClusterResponse drain = Change(8);
  v1::Node* node = drain.mutable_change()->add_nodes();
  *node = MakeNode("n0");
  node->mutable_status()->set_phase(v1::NODE_PHASE_DRAINING);
  mirror.Take(drain, kNow);
  EXPECT_FALSE(mirror.TakeNodeLeaves()) << "a drain is in no hurry";
  v1::WatchClusterResponse notice = drain;
  notice.mutable_change()->set_version(9);
  notice.mutable_change()->mutable_nodes(0)->mutable_status()->mutable_preemption_time()->set_seconds(1);
  mirror.Take(notice, kNow);
  EXPECT_TRUE(mirror.TakeNodeLeaves());
  EXPECT_FALSE(mirror.TakeNodeLeaves());
  mirror.Take(notice, kNow);
  EXPECT_FALSE(mirror.TakeNodeLeaves()) << "it was known";
}

}  // namespace
}  // namespace adaptdl::allocator
