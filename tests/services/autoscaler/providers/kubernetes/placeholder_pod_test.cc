#include "services/autoscaler/providers/kubernetes/placeholder_pod.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/kube/json/object.h"

namespace adaptdl::autoscaler {
namespace {

using kube::Json;
using ::testing::HasSubstr;

class PlaceholderPodTest : public ::testing::Test {
 protected:
  PlaceholderOptions options_ = {
      .pool = "gpu",
      .node_selector = {{"karpenter.sh/nodepool", "gpu"}},
      .node_labels = {{"disk", "ssd"}},
      .node_resources = {{"cpu", "7500m"}, {"memory", "28Gi"}, {"nvidia.com/gpu", "2"}},
      .tolerations = Json::parse(R"([{"key": "nvidia.com/gpu", "operator": "Exists"}])")};
};

TEST_F(PlaceholderPodTest, AsksForAWholeNodeAndYields) {
  ASSERT_TRUE(CheckPlaceholders(options_).ok());
  const Json pod = MakePlaceholder(options_, "p", {});
  const Json& spec = pod["spec"];
  const Json& resources = spec["containers"][0]["resources"];
  EXPECT_EQ(resources["requests"], options_.node_resources);
  EXPECT_EQ(resources["limits"], Json({{"nvidia.com/gpu", "2"}})) << "devices need one, and nothing else";
  EXPECT_EQ(spec["priorityClassName"], "adaptdl-placeholder");
  EXPECT_EQ(spec["terminationGracePeriodSeconds"], 0);
  EXPECT_EQ(spec["nodeSelector"], Json({{"karpenter.sh/nodepool", "gpu"}}));
  EXPECT_EQ(spec["tolerations"][0]["key"], "nvidia.com/gpu");
  EXPECT_EQ(spec["tolerations"][1]["key"], "petuum.com/nodegroup");
  EXPECT_EQ(kube::LabelOf(pod, "adaptdl/placeholder"), "true");
  EXPECT_EQ(kube::LabelOf(pod, "adaptdl.petuum.com/pool"), "gpu");
}

TEST_F(PlaceholderPodTest, NoTwoShareANodeAndNoneSharesItWithAReplica) {
  const Json pod = MakePlaceholder(options_, "p", {});
  const Json& terms =
      pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
  ASSERT_EQ(terms.size(), 2u);
  EXPECT_EQ(terms[0]["labelSelector"]["matchLabels"], Json({{"adaptdl/placeholder", "true"}}));
  EXPECT_EQ(terms[1]["labelSelector"]["matchLabels"], Json({{"adaptdl", "true"}}));
  EXPECT_TRUE(terms[1]["namespaceSelector"].is_object()) << "replicas of all namespaces";
  for (const Json& term : terms) EXPECT_EQ(term["topologyKey"], "kubernetes.io/hostname");
}

TEST_F(PlaceholderPodTest, OneThatKeepsANodeIsForThatNode) {
  const Json pod = MakePlaceholder(options_, "p", {.only = "host-a"});
  EXPECT_EQ(ReadPlaceholder(pod).host_name, "host-a");
  EXPECT_EQ(pod["metadata"]["annotations"]["cluster-autoscaler.kubernetes.io/safe-to-evict"], "false");
  EXPECT_EQ(pod["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"], "true");
}

TEST_F(PlaceholderPodTest, ANodeOfThePoolHoldsWhatItAsksFor) {
  const v1::Node node = NodeOfPool(options_);
  EXPECT_EQ(node.capacity().cpu_millis(), 7500);
  EXPECT_EQ(node.capacity().memory_bytes(), int64_t{28} << 30);
  EXPECT_EQ(node.capacity().gpus(), 2);
  EXPECT_EQ(node.labels().at("disk"), "ssd");
  EXPECT_EQ(node.labels().at("karpenter.sh/nodepool"), "gpu");
}

TEST_F(PlaceholderPodTest, ErrorsNameTheFlag) {
  const auto why_not = [](PlaceholderOptions options) { return CheckPlaceholders(options).ToString(); };
  PlaceholderOptions options = options_;
  options.node_selector.clear();
  EXPECT_THAT(why_not(options), HasSubstr("needs --node-selector"));
  options = options_;
  options.node_resources = Json();
  EXPECT_THAT(why_not(options), HasSubstr("needs --node-resources"));
  options.node_resources = {{"cpu", "many"}};
  EXPECT_THAT(why_not(options), HasSubstr("--node-resources: "));
  options = options_;
  options.tolerations = "all";
  EXPECT_THAT(why_not(options), HasSubstr("--node-tolerations: give a list"));
}

TEST_F(PlaceholderPodTest, ReadsWhateverIsThere) {
  for (const char* text : {"{}", "[]", "null", R"({"spec": 1, "status": {"conditions": {}}})",
                           R"({"metadata": {"name": 3}, "status": {"phase": [], "conditions": [7]}})"}) {
    EXPECT_FALSE(ReadPlaceholder(Json::parse(text)).has_ended) << text;
  }
  const Placeholder ended = ReadPlaceholder({{"status", {{"phase", "Failed"}}}});
  EXPECT_TRUE(ended.has_ended);
  Json waits = MakePlaceholder(options_, "p", {});
  waits["status"]["conditions"] = {{{"type", "PodScheduled"}, {"status", "False"}, {"message", "no room"}}};
  EXPECT_EQ(ReadPlaceholder(waits).unschedulable, "no room");
}

}  // namespace
}  // namespace adaptdl::autoscaler
