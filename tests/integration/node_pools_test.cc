// Two pools of different prices, kept by the real autoscaler with workers as nodes, while real jobs train: from no node at
// all, up with the load, down again while the job goes on, and back to none.

#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/file.h"
#include "tests/integration/test_cluster.h"
#include "tests/integration/training_data.h"

namespace adaptdl::integration {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

constexpr int kEpochs = 28;
constexpr int kStepsPerEpoch = 125;  // 8,000 images at batch size 64.
constexpr double kAccuracy = 93.0;

class NodePoolsTest : public testing::Test {
 protected:
  void SetUp() override {
    Aim(/*goodput_per_dollar=*/0.001);
    const absl::Status started = cluster_.Start();
    ASSERT_TRUE(started.ok()) << started;
  }

  // One node of each, the cheap one first. A low aim buys all that is of any use, a high one what jobs need to run.
  void Aim(double goodput_per_dollar) {
    const std::string content = absl::StrCat(
        "cooldown: 1s\ntarget: {mode: cost, goodputPerDollar: ", goodput_per_dollar, "}\npools:\n",
        "- {name: dear, provider: process, pricePerHour: 1.0, maxNodes: 1, startTime: 2s, process: "
        "{workerCpus: 1}}\n",
        "- {name: cheap, provider: process, pricePerHour: 0.3, spot: true, maxNodes: 1, startTime: 2s, "
        "process: {workerCpus: 1}}\n");
    ASSERT_TRUE(WriteFileAtomically(PoolFile(), content).ok());
  }

  static std::string PoolFile() { return ::testing::TempDir() + "/node_pools_test.yaml"; }

  // Nodes that the supervisor knows and that have not been lost.
  std::vector<std::string> Nodes() {
    grpc::ClientContext context;
    v1::ListNodesResponse response;
    std::vector<std::string> nodes;
    if (!cluster_.nodes().ListNodes(&context, {}, &response).ok()) return {"?"};
    for (const v1::Node& node : response.nodes()) nodes.push_back(node.node_id());
    return nodes;
  }

  bool WaitForNodes(const std::vector<std::string>& nodes) {
    const absl::Time deadline = absl::Now() + absl::Minutes(3);
    while (Nodes() != nodes) {
      if (absl::Now() > deadline) return false;
      absl::SleepFor(absl::Milliseconds(50));
    }
    return true;
  }

  v1::Job Job(const std::string& name, int epochs, int most) {
    v1::Job job = cluster_.MnistJob(name, MnistArguments(epochs));
    job.mutable_spec()->set_max_replicas(most);
    return job;
  }

  // Whether each step was done once, and nothing was started again.
  void ExpectTrained(const std::string& name, int epochs) {
    const auto job = cluster_.WaitForJob(name, Finished, absl::Minutes(10));
    ASSERT_TRUE(job.ok()) << job.status() << "\n" << cluster_.Logs(name);
    EXPECT_EQ(job->status().phase(), v1::JOB_PHASE_SUCCEEDED) << job->status().ShortDebugString();
    EXPECT_EQ(job->status().restarts(), 0);
    EXPECT_EQ(job->status().failures(), 0);
    EXPECT_EQ(job->status().progress().optimizer_steps(), epochs * kStepsPerEpoch);
    EXPECT_GE(cluster_.TestAccuracy(name), kAccuracy) << cluster_.Logs(name);
  }

  TestCluster cluster_{{.workers = 0, .autoscaler = true, .pool_file = PoolFile()}};
};

TEST_F(NodePoolsTest, NodesFollowTheLoadWhileJobsTrain) {
  EXPECT_THAT(Nodes(), ElementsAre());
  ASSERT_TRUE(cluster_.Submit(Job("long", kEpochs, 2)).ok());
  // From zero: what a waiting job needs comes from the cheapest pool.
  auto job = cluster_.WaitForJob("long", RunningWith(1), absl::Minutes(2));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_THAT(job->status().allocation(), ElementsAre("cheap-0"));
  // It has measured itself, and grows onto a node of the other pool.
  job = cluster_.WaitForJob("long", RunningWith(2), absl::Minutes(3));
  ASSERT_TRUE(job.ok()) << job.status() << "\n" << cluster_.Logs("long");
  EXPECT_THAT(job->status().allocation(), UnorderedElementsAre("cheap-0", "dear-0"));

  // What it brings there is not worth the price any more: a node that works is drained, the job goes on in place.
  Aim(1000);
  job = cluster_.WaitForJob("long", RunningWith(1), absl::Minutes(2));
  ASSERT_TRUE(job.ok()) << job.status();
  ASSERT_TRUE(WaitForNodes({"cheap-0"})) << absl::StrJoin(Nodes(), ",");

  // The load rises: another job needs a node of its own, and gives it back at its end.
  ASSERT_TRUE(cluster_.Submit(Job("short", 4, 1)).ok());
  job = cluster_.WaitForJob("short", RunningWith(1), absl::Minutes(2));
  ASSERT_TRUE(job.ok()) << job.status();
  ExpectTrained("short", 4);
  ASSERT_TRUE(WaitForNodes({"cheap-0"})) << absl::StrJoin(Nodes(), ",");

  ExpectTrained("long", kEpochs);
  // Down to zero.
  ASSERT_TRUE(WaitForNodes({})) << absl::StrJoin(Nodes(), ",");
}

}  // namespace
}  // namespace adaptdl::integration
