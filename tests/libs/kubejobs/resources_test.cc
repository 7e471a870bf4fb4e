#include "libs/kubejobs/resources.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/vectors/vectors.h"

namespace adaptdl::kubejobs {
namespace {

using kube::Json;
using testing::HasSubstr;

// A pod with one container that asks for this.
Json Asking(const Json& requests) {
  Json container = Json::object();
  container["resources"]["requests"] = requests;
  return {{"containers", Json::array({container})}};
}

int64_t Amount(const v1::Resources& resources, const std::string& name) {
  if (name == "cpu") return resources.cpu_millis();
  if (name == "memory") return resources.memory_bytes();
  if (name == "nvidia.com/gpu") return resources.gpus();
  const auto found = resources.extended().find(name);
  return found == resources.extended().end() ? 0 : found->second;
}

TEST(ResourcesTest, QuantitiesAreReadAsAdaptdlReadsThem) {
  const Json vectors = ReadVectors("resources.json")["discretize"];
  for (const Json& vector : vectors) {
    const std::string name = vector["name"];
    if (name == "pods") continue;  // Each pod asks for one, whatever it says.
    const auto request = PodRequest(Asking({{name, vector["value"]}}));
    ASSERT_TRUE(request.ok()) << vector << request.status();
    // More than any machine has counts as more than any machine has.
    const int64_t expected = std::min(vector["result"].get<int64_t>(), int64_t{1} << 50);
    EXPECT_EQ(Amount(*request, name), expected) << vector;
  }
}

TEST(ResourcesTest, WhatIsNoQuantityIsRefused) {
  const Json vectors = ReadVectors("resources.json")["malformed"];
  for (const Json& vector : vectors) {
    const std::string value = vector["value"];
    const auto request = PodRequest(Asking({{vector["name"].get<std::string>(), value}}));
    // Kubernetes itself knows these two, in which metrics are given, so that nodes and pods may have them.
    if (value == "100n" || value == "100u") {
      ASSERT_TRUE(request.ok()) << value;
      EXPECT_EQ(request->cpu_millis(), 1) << "rounded up";
      continue;
    }
    // AdaptDL reads "1 Gi", which Kubernetes refuses.
    EXPECT_EQ(request.status().code(), absl::StatusCode::kInvalidArgument) << vector;
    EXPECT_THAT(request.status().message(), HasSubstr("containers[0].resources.requests")) << vector;
  }
}

// What our rules, which are those of Kubernetes' scheduler, say where AdaptDL's differ: init containers count, and what
// is limited and not requested is requested.
Json Expected(const Json& vector) {
  Json expected = vector["requests"];
  const Json& spec = vector["pod_spec"];
  if (spec.contains("initContainers")) expected["cpu"] = 8000;
  if (expected.size() > 1 || !spec["containers"][0].contains("resources")) return expected;
  const Json& resources = spec["containers"][0]["resources"];
  if (resources.contains("limits")) expected.update({{"cpu", 2000}, {"memory", int64_t{4} << 30}});
  if (resources.contains("requests")) expected["nvidia.com/gpu"] = 1;
  return expected;
}

TEST(ResourcesTest, PodsAskForWhatAdaptdlSaysTheyDo) {
  const Json vectors = ReadVectors("resources.json")["pod_requests"];
  for (const Json& vector : vectors) {
    const auto request = PodRequest(vector["pod_spec"]);
    ASSERT_TRUE(request.ok()) << request.status();
    const Json expected = Expected(vector);
    for (const auto& [name, amount] : expected.items()) {
      EXPECT_EQ(Amount(*request, name), amount.get<int64_t>()) << name << " of " << vector;
    }
  }
}

TEST(ResourcesTest, SidecarsAndOverheadAreAdded) {
  const Json pod = Json::parse(R"({
    "overhead": {"cpu": "10m"},
    "initContainers": [
      {"restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}},
      {"resources": {"requests": {"cpu": "2", "memory": "10"}}}],
    "containers": [{"resources": {"requests": {"cpu": "1", "memory": "50"}}}]})");
  const auto request = PodRequest(pod);
  ASSERT_TRUE(request.ok());
  // The second init container, beside the sidecar, needs more than what runs later.
  EXPECT_EQ(request->cpu_millis(), 2100 + 10);
  EXPECT_EQ(request->memory_bytes(), 50);
  EXPECT_EQ(Amount(*request, "pods"), 1);
}

TEST(ResourcesTest, WhatIsNotAskedOfOnNodeIsLeft) {
  // AdaptDL's case: one pod of "1cpu 1gpu" and one of "920m 1gpu" run there.
  const Json vector = ReadVectors("resources.json")["node_unrequested"];
  const auto amounts = Allocatable({{"status", {{"allocatable", vector["allocatable"]}}}});
  ASSERT_TRUE(amounts.ok());
  const auto first = PodRequest(Asking({{"cpu", "1"}, {"nvidia.com/gpu", 1}}));
  const auto second = PodRequest(Asking({{"cpu", "920m"}, {"nvidia.com/gpu", 1}}));
  const v1::Resources left = Less(*amounts, Sum(*first, *second));
  for (const auto& [name, amount] : vector["result"].items()) {
    EXPECT_EQ(Amount(left, name), amount.get<int64_t>()) << name;
  }
  EXPECT_EQ(left.gpus(), 0);
  EXPECT_EQ(Less(left, *first).cpu_millis(), 1000);
  EXPECT_EQ(Less(left, *first).gpus(), 0) << "never below nothing";
}

TEST(ResourcesTest, DefaultsGoWhereNothingIsSaid) {
  const Json defaults = {{"requests", {{"cpu", "1"}, {"memory", "1Gi"}}}};
  const Json pod = Json::parse(R"({"containers": [{"resources": {"limits": {"cpu": "3"}}}, {}]})");
  const Json made = WithDefaultResources(pod, defaults);
  const auto request = PodRequest(made);
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->cpu_millis(), 3000);
  EXPECT_EQ(request->memory_bytes(), int64_t{1} << 30);
  EXPECT_FALSE(made["containers"][1].contains("resources")) << "of the first container alone";
  EXPECT_EQ(WithDefaultResources(pod, Json()), pod);
}

TEST(ResourcesTest, OddObjectsAreNoTrouble) {
  for (const char* text :
       {"null", "7", "{}", R"({"containers": {}})", R"({"containers": [7, null, {"resources": []}]})",
        R"({"initContainers": [[]], "overhead": 3})"}) {
    const auto request = PodRequest(Json::parse(text));
    ASSERT_TRUE(request.ok()) << text;
    EXPECT_EQ(Amount(*request, "pods"), 1);
    WithDefaultResources(Json::parse(text), {{"requests", {{"cpu", "1"}}}});
  }
  EXPECT_FALSE(PodRequest(Asking({{"cpu", Json::array()}})).ok());
  EXPECT_FALSE(Allocatable(Json::parse(R"({"status": {"allocatable": {"cpu": "-1"}}})")).ok());
}

}  // namespace
}  // namespace adaptdl::kubejobs
