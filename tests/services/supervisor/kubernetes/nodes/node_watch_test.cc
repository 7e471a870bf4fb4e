// Nodes of Kubernetes become the supervisor's, and what counts of them follows.

#include "services/supervisor/kubernetes/nodes/node_watch.h"

#include <memory>
#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "tests/services/supervisor/kubernetes/kube_managers_fixture.h"

namespace adaptdl::supervisor {
namespace {

using kube::Json;
using ::testing::HasSubstr;

class NodeWatchTest : public KubeManagersTest {
 protected:
  void Watch() {
    observed_ = std::make_unique<ObservedNodes>(cluster_->core(), cluster_->nodes());
    watch_ = std::make_unique<NodeWatch>(&client_, observed_.get(), &clock_, NodeWatchOptions());
    ASSERT_TRUE(watch_->AwaitSynced({}));
  }

  static Json NodeOf(const std::string& name, const std::string& gpus = "2") {
    return {
        {"apiVersion", "v1"},
        {"kind", "Node"},
        {"metadata", {{"name", name}, {"labels", {{"zone", "a"}, {"nvidia.com/gpu.product", "T4"}}}}},
        {"status",
         {{"allocatable", {{"cpu", "3920m"}, {"memory", "15Gi"}, {"pods", "110"}, {"nvidia.com/gpu", gpus}}},
          {"conditions", {{{"type", "Ready"}, {"status", "True"}}}}}}};
  }
  void Create(const Json& object, const kube::ResourceType& type, const std::string& name_space = "") {
    const auto made = client_.Create(kube::Collection(type, name_space), object, by_);
    ASSERT_TRUE(made.ok()) << made.status();
    // What they are is a subresource, as of a kubelet.
    if (!object.contains("status")) return;
    const auto target = kube::ObjectOf(type, kube::KeyOf(*made)).Sub("status");
    const auto status = client_.MergePatch(target, {{"status", object["status"]}}, by_);
    ASSERT_TRUE(status.ok()) << status.status();
  }
  static Json PodOn(const std::string& node, const std::string& name, const std::string& cpu) {
    return {{"apiVersion", "v1"},
            {"kind", "Pod"},
            {"metadata", {{"name", name}, {"namespace", "default"}}},
            {"spec",
             {{"nodeName", node},
              {"containers",
               {{{"name", "main"}, {"image", "x"}, {"resources", {{"requests", {{"cpu", cpu}}}}}}}}}}};
  }

  // As the supervisor has it.
  std::optional<v1::Node> Known(const std::string& id) {
    const auto nodes = cluster_->nodes()->ListNodes({});
    for (const v1::Node& node : nodes->nodes()) {
      if (node.node_id() == id) return node;
    }
    return std::nullopt;
  }
  void AwaitNode(const std::string& id, const std::function<bool(const v1::Node&)>& holds) {
    Await("node " + id, [&] {
      watch_->Step();
      const auto node = Known(id);
      return node.has_value() && holds(*node);
    });
  }
  int64_t Version() { return cluster_->scheduling()->View().version; }

  std::unique_ptr<ObservedNodes> observed_;
  std::unique_ptr<NodeWatch> watch_;
};

TEST_F(NodeWatchTest, WhatOthersHoldIsNotThere) {
  Create(NodeOf("n1"), kube::Nodes());
  Create(PodOn("n1", "daemon", "420m"), kube::Pods(), "default");
  Watch();
  const v1::Node node = *Known("n1");
  EXPECT_EQ(node.capacity().cpu_millis(), 3500);
  EXPECT_EQ(node.capacity().gpus(), 2);
  EXPECT_EQ(node.capacity().extended().at("pods"), 109);
  EXPECT_EQ(node.gpu_type(), "T4");
  EXPECT_EQ(node.labels().at("zone"), "a");
  EXPECT_EQ(node.status().phase(), v1::NODE_PHASE_READY);
  Create(PodOn("n1", "other", "1"), kube::Pods(), "default");
  AwaitNode("n1", [](const v1::Node& n) { return n.capacity().cpu_millis() == 2500; });
  ASSERT_TRUE(
      client_
          .Delete(kube::ObjectOf(kube::Pods(), {"default", "other"}), {.grace_period = absl::ZeroDuration()})
          .ok());
  AwaitNode("n1", [](const v1::Node& n) { return n.capacity().cpu_millis() == 3500; });
}

TEST_F(NodeWatchTest, ACordonedNodeDrainsAndComesBack) {
  Create(NodeOf("n1"), kube::Nodes());
  Watch();
  const auto target = kube::ObjectOf(kube::Nodes(), {"", "n1"});
  ASSERT_TRUE(client_.MergePatch(target, {{"spec", {{"unschedulable", true}}}}, by_).ok());
  AwaitNode("n1", [](const v1::Node& n) { return n.status().phase() == v1::NODE_PHASE_DRAINING; });
  EXPECT_EQ(Known("n1")->status().message(), "cordoned");
  ASSERT_TRUE(client_.MergePatch(target, {{"spec", {{"unschedulable", nullptr}}}}, by_).ok());
  AwaitNode("n1", [](const v1::Node& n) { return n.status().phase() == v1::NODE_PHASE_READY; });
}

TEST_F(NodeWatchTest, ATaintOfWhoTakesNodesAwayIsANotice) {
  Create(NodeOf("n1"), kube::Nodes());
  Watch();
  const Json taints = {{{"key", "ToBeDeletedByClusterAutoscaler"}, {"effect", "NoSchedule"}}};
  ASSERT_TRUE(
      client_.MergePatch(kube::ObjectOf(kube::Nodes(), {"", "n1"}), {{"spec", {{"taints", taints}}}}, by_)
          .ok());
  AwaitNode("n1", [](const v1::Node& n) { return n.status().phase() == v1::NODE_PHASE_DRAINING; });
  EXPECT_THAT(Known("n1")->status().message(), HasSubstr("the cluster autoscaler removes it"));
}

TEST_F(NodeWatchTest, ARebalanceRecommendationIsALikelihoodForAsLongAsItIsSaid) {
  Create(NodeOf("n1"), kube::Nodes());
  Watch();
  const auto target = kube::ObjectOf(kube::Nodes(), {"", "n1"});
  const auto set = [&](const Json& taints, const Json& cordoned) {
    ASSERT_TRUE(
        client_.MergePatch(target, {{"spec", {{"taints", taints}, {"unschedulable", cordoned}}}}, by_).ok());
  };
  // As the termination handler does: it cordons the node as well.
  set({{{"key", "aws-node-termination-handler/rebalance-recommendation"}, {"effect", "NoSchedule"}}}, true);
  AwaitNode("n1", [](const v1::Node& n) { return n.status().phase() == v1::NODE_PHASE_DRAINING; });
  EXPECT_THAT(Known("n1")->status().message(), HasSubstr("may be taken away: its spot instance"));
  EXPECT_FALSE(Known("n1")->status().has_preemption_time());
  const int64_t version = Version();
  watch_->Step();
  EXPECT_EQ(Version(), version) << "nothing has changed";
  // The interruption itself.
  set({{{"key", "aws-node-termination-handler/rebalance-recommendation"}, {"effect", "NoSchedule"}},
       {{"key", "aws-node-termination-handler/spot-itn"}, {"effect", "NoSchedule"}}},
      true);
  AwaitNode("n1", [](const v1::Node& n) { return n.status().has_preemption_time(); });
  EXPECT_THAT(Known("n1")->status().message(), HasSubstr("goes away: its spot instance is taken back"));
}

TEST_F(NodeWatchTest, ALikelihoodThatIsNotSaidAnyMoreIsNone) {
  Create(NodeOf("n1"), kube::Nodes());
  Watch();
  const auto target = kube::ObjectOf(kube::Nodes(), {"", "n1"});
  const Json taints = {
      {{"key", "aws-node-termination-handler/rebalance-recommendation"}, {"effect", "NoSchedule"}}};
  ASSERT_TRUE(client_.MergePatch(target, {{"spec", {{"taints", taints}}}}, by_).ok());
  AwaitNode("n1", [](const v1::Node& n) { return n.status().phase() == v1::NODE_PHASE_DRAINING; });
  ASSERT_TRUE(client_.MergePatch(target, {{"spec", {{"taints", Json::array()}}}}, by_).ok());
  AwaitNode("n1", [](const v1::Node& n) { return n.status().phase() == v1::NODE_PHASE_READY; });
  EXPECT_EQ(Known("n1")->taints_size(), 0);
}

TEST_F(NodeWatchTest, ANodeThatIsNotReadyForLongIsLostAndComesBack) {
  Create(NodeOf("n1"), kube::Nodes());
  Watch();
  const auto status = kube::ObjectOf(kube::Nodes(), {"", "n1"}).Sub("status");
  const auto set_ready = [&](const std::string& value) {
    const Json condition = {
        {"type", "Ready"}, {"status", value}, {"lastTransitionTime", kube::TimeText(clock_.Both().wall)}};
    ASSERT_TRUE(client_.MergePatch(status, {{"status", {{"conditions", {condition}}}}}, by_).ok());
  };
  const auto advance = [&](absl::Duration duration) {
    for (; duration > absl::ZeroDuration(); duration -= absl::Seconds(1)) {
      watch_->Step();
      Advance(absl::Seconds(1));
    }
  };
  advance(absl::Minutes(5));
  EXPECT_EQ(Known("n1")->status().phase(), v1::NODE_PHASE_READY) << "it sends no heartbeats, and need not";
  set_ready("Unknown");
  advance(absl::Seconds(20));
  EXPECT_EQ(Known("n1")->status().phase(), v1::NODE_PHASE_READY) << "a kubelet may be restarted";
  Await("lost", [&] {
    advance(absl::Seconds(1));
    return Known("n1")->status().phase() == v1::NODE_PHASE_LOST;
  });
  set_ready("True");
  AwaitNode("n1", [](const v1::Node& n) { return n.status().phase() == v1::NODE_PHASE_READY; });
}

TEST_F(NodeWatchTest, ANodeThatJoinsCountsWhenItIsReady) {
  Create(NodeOf("n1"), kube::Nodes());
  const auto target = kube::ObjectOf(kube::Nodes(), {"", "n1"});
  const Json made = client_.Get(target).value();
  const auto say_ready = [&](const char* value) {
    const Json condition = {
        {"type", "Ready"}, {"status", value}, {"lastTransitionTime", made["metadata"]["creationTimestamp"]}};
    ASSERT_TRUE(
        client_.MergePatch(target.Sub("status"), {{"status", {{"conditions", {condition}}}}}, by_).ok());
  };
  say_ready("False");
  Watch();
  EXPECT_FALSE(Known("n1").has_value());
  say_ready("True");
  AwaitNode("n1", [](const v1::Node& n) { return n.status().phase() == v1::NODE_PHASE_READY; });
}

TEST_F(NodeWatchTest, APlaceholderHoldsNothingIfItYields) {
  Create(NodeOf("n1"), kube::Nodes());
  Json pod = PodOn("n1", "placeholder", "1");
  pod["metadata"]["labels"] = {{"adaptdl/placeholder", "true"}};
  Create(pod, kube::Pods(), "default");
  const kube::ResourceType classes = {"scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", false};
  Create({{"metadata", {{"name", "low"}}}, {"value", -10}}, classes);
  pod["metadata"]["name"] = "another";
  pod["spec"]["priorityClassName"] = "low";
  Create(pod, kube::Pods(), "default");
  Watch();
  EXPECT_EQ(Known("n1")->capacity().cpu_millis(), 2920) << "one of the two only calls itself a placeholder";
}

TEST_F(NodeWatchTest, ANodeThatIsGoneIsForgotten) {
  Create(NodeOf("n1"), kube::Nodes());
  Watch();
  ASSERT_TRUE(client_.Delete(kube::ObjectOf(kube::Nodes(), {"", "n1"}), {}).ok());
  Await("gone", [&] {
    watch_->Step();
    return !Known("n1").has_value();
  });
}

TEST_F(NodeWatchTest, WhatDoesNotCountChangesNothing) {
  for (int i = 0; i < 200; ++i) Create(NodeOf("n" + std::to_string(i)), kube::Nodes());
  Watch();
  const int64_t version = Version();
  // As kubelets do all the time.
  for (int i = 0; i < 200; ++i) {
    const auto status = kube::ObjectOf(kube::Nodes(), {"", "n" + std::to_string(i)}).Sub("status");
    const Json images = {{{"names", {"x"}}, {"sizeBytes", i}}};
    ASSERT_TRUE(client_.MergePatch(status, {{"status", {{"images", images}}}}, by_).ok());
  }
  Create(NodeOf("last"), kube::Nodes());
  AwaitNode("last", [](const v1::Node&) { return true; });
  EXPECT_LE(Version(), version + 2) << "the last node, and what it has";
}

TEST_F(NodeWatchTest, AnApiServerThatIsDownKillsNoNode) {
  Create(NodeOf("n1"), kube::Nodes());
  Watch();
  server_.Stop();
  for (int i = 0; i < 120; ++i) {
    watch_->Step();
    Advance(absl::Seconds(1));
  }
  EXPECT_EQ(Known("n1")->status().phase(), v1::NODE_PHASE_READY);
  server_.Start();
  Create(NodeOf("n2"), kube::Nodes());
  AwaitNode("n2", [](const v1::Node&) { return true; });
}

}  // namespace
}  // namespace adaptdl::supervisor
