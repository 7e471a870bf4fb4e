// Each node has a host of its own, and the network between them fails: a node that is cut off is not waited
// for, does no harm, and comes back; a slow and lossy network breaks nothing.

#include <algorithm>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/base/clock.h"
#include "tests/integration/faults/faulty_network.h"
#include "tests/integration/faults/training_cluster.h"

namespace adaptdl::integration {
namespace {

constexpr int kNodes = 4;

// Of a node. The control plane is on host 0.
int HostOf(int node) { return node + 1; }

class NetworkFaultTest : public testing::Test {
 protected:
  // Once: this process stays on its host.
  static void SetUpTestSuite() {
    auto network = FaultyNetwork::Create(kNodes + 1);
    if (network.ok()) network_ = std::move(*network).release();
    reason_ = network.status();
  }
  static void TearDownTestSuite() {
    delete network_;
    network_ = nullptr;
  }

  void SetUp() override {
    if (absl::IsUnavailable(reason_)) GTEST_SKIP() << "NETWORK FAULTS ARE NOT TESTED: " << reason_.message();
    ASSERT_TRUE(reason_.ok()) << reason_;
    network_->Mend();
    TestClusterOptions options{.workers = kNodes, .allocator = false};
    options.control_host = FaultyNetwork::Address(0);
    options.place_of_worker = [](int node) {
      return TestClusterOptions::Place{FaultyNetwork::Address(HostOf(node)), network_->fd(HostOf(node))};
    };
    training_ = std::make_unique<TrainingCluster>(options);
  }

  static std::vector<std::string> Nodes(int count) {
    std::vector<std::string> nodes;
    for (int node = 0; node < count; ++node) nodes.push_back(absl::StrCat("node-", node));
    return nodes;
  }

  std::vector<pid_t> ReplicasOn(int node) const {
    std::vector<pid_t> replicas = training_->Replicas();
    std::erase_if(replicas, [&](pid_t pid) { return !network_->IsOn(HostOf(node), pid); });
    return replicas;
  }

  // A replica that was given up ends when it hears so. The others may train with its successor before: what was
  // said while the network was cut comes when TCP tries again, which it does ever more seldom.
  bool EndsSoon(int node, pid_t replica) const {
    const absl::Time deadline = SteadyNow() + TrainingCluster::kHang;
    while (SteadyNow() < deadline) {
      const std::vector<pid_t> replicas = ReplicasOn(node);
      if (std::count(replicas.begin(), replicas.end(), replica) == 0) return true;
      absl::SleepFor(absl::Milliseconds(20));
    }
    return false;
  }

  // Cuts the node off by `cut`, until the others have gone on; what ran there before is gone at the end.
  void ExpectTheOthersGoOn(int node, const std::function<void(int host)>& cut) {
    ASSERT_NO_FATAL_FAILURE(training_->Start(Nodes(kNodes)));
    const std::vector<pid_t> before = ReplicasOn(node);
    ASSERT_EQ(before.size(), 1u);
    const absl::Duration usual = training_->usual();
    const absl::Time since = SteadyNow();
    cut(HostOf(node));
    const auto without = training_->cluster().WaitForJob("job", RunningAfterGroup(training_->group()),
                                                         TrainingCluster::kPatience);
    ASSERT_TRUE(without.ok()) << without.status() << "\n" << training_->cluster().Logs("job");
    training_->ExpectWithin(training_->kSilence, usual, SteadyNow() - since, "a node that is cut off");
    ASSERT_NO_FATAL_FAILURE(training_->AwaitTrainingOn(kNodes - 1));
    network_->Mend();
    ASSERT_NO_FATAL_FAILURE(training_->AwaitTrainingOn(kNodes));
    EXPECT_TRUE(EndsSoon(node, before[0])) << "the one that was cut off runs on";
    // It may have heard the others' parts of the step under way, and they not its.
    training_->ExpectOneTraining(/*most_repeated=*/1);
  }

  static FaultyNetwork* network_;
  static absl::Status reason_;
  std::unique_ptr<TrainingCluster> training_;
};

FaultyNetwork* NetworkFaultTest::network_ = nullptr;
absl::Status NetworkFaultTest::reason_;

TEST_F(NetworkFaultTest, ANodeThatIsCutOffComesBack) {
  ExpectTheOthersGoOn(3, [](int host) {
    network_->SetLinksTo(host, {.cut = true});
    network_->SetLinksFrom(host, {.cut = true});
  });
}

TEST_F(NetworkFaultTest, ANodeThatIsNotHeardComesBack) {
  ExpectTheOthersGoOn(2, [](int host) { network_->SetLinksFrom(host, {.cut = true}); });
}

// Its rank 0 writes the checkpoints.
TEST_F(NetworkFaultTest, AFirstNodeThatHearsNobodyComesBack) {
  ExpectTheOthersGoOn(0, [](int host) { network_->SetLinksTo(host, {.cut = true}); });
}

// All heartbeats arrive; two replicas do not reach each other.
TEST_F(NetworkFaultTest, TwoNodesThatDoNotReachEachOtherAreKeptApart) {
  ASSERT_NO_FATAL_FAILURE(training_->Start(Nodes(3)));
  const absl::Duration usual = training_->usual();
  const absl::Time since = SteadyNow();
  network_->SetLink(HostOf(1), HostOf(2), {.cut = true});
  network_->SetLink(HostOf(2), HostOf(1), {.cut = true});
  const auto without = training_->cluster().WaitForJob("job", RunningAfterGroup(training_->group()),
                                                       TrainingCluster::kPatience);
  ASSERT_TRUE(without.ok()) << without.status() << "\n" << training_->cluster().Logs("job");
  // The patience of docs/rescale.md, and a few heartbeats.
  training_->ExpectWithin(absl::Seconds(10) + absl::Seconds(5), usual, SteadyNow() - since,
                          "two that do not reach each other");
  ASSERT_NO_FATAL_FAILURE(training_->AwaitTrainingOn(2));
  // Nobody comes in its place where the other one is.
  const absl::Status allocated = training_->cluster().Allocate("job", {"node-0", "node-1", "node-3"});
  ASSERT_TRUE(allocated.ok()) << allocated;
  ASSERT_NO_FATAL_FAILURE(training_->AwaitTrainingOn(3));
  training_->ExpectOneTraining(/*most_repeated=*/1);
}

TEST_F(NetworkFaultTest, ASlowAndLossyNetworkBreaksNothing) {
  ASSERT_NO_FATAL_FAILURE(training_->Start(Nodes(3)));
  for (int host = 0; host <= kNodes; ++host) {
    network_->SetLinksTo(host, {.loss = 0.01, .delay = absl::Milliseconds(10)});
  }
  ASSERT_NO_FATAL_FAILURE(training_->Rescale(Nodes(4)));
  ASSERT_NO_FATAL_FAILURE(training_->Rescale({"node-1", "node-3"}));
  training_->ExpectOneTraining();
  for (const std::string& reason : training_->cluster().EventReasons("job")) {
    EXPECT_NE(reason, "ReplicaLost");
    EXPECT_NE(reason, "Recovering");
  }
}

}  // namespace
}  // namespace adaptdl::integration
