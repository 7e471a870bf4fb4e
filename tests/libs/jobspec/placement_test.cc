// Kubernetes' rules of placement.

#include "libs/jobspec/placement.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace adaptdl::jobspec {
namespace {

using ::testing::HasSubstr;

v1::Placement Rule(const std::string& text) {
  v1::Placement placement;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &placement)) << text;
  return placement;
}

v1::Node Node(const std::string& taint = "") {
  v1::Node node;
  node.set_node_id("n1");
  (*node.mutable_labels())["disk"] = "ssd";
  (*node.mutable_labels())["cores"] = "16";
  if (!taint.empty()) *node.add_taints() = ParseTaint(taint).value();
  return node;
}

v1::Placement Term(const std::string& requirements) {
  return Rule("node_terms { labels { " + requirements + " } }");
}

TEST(PlacementTest, LabelsAreComparedAsKubernetesDoes) {
  const struct {
    const char* requirement;
    bool met;
  } kCases[] = {
      {R"(key: "disk" operator: NODE_OPERATOR_IN values: ["hdd", "ssd"])", true},
      {R"(key: "disk" operator: NODE_OPERATOR_IN values: "hdd")", false},
      {R"(key: "zone" operator: NODE_OPERATOR_IN values: "a")", false},
      {R"(key: "disk" operator: NODE_OPERATOR_NOT_IN values: "hdd")", true},
      {R"(key: "disk" operator: NODE_OPERATOR_NOT_IN values: "ssd")", false},
      {R"(key: "zone" operator: NODE_OPERATOR_NOT_IN values: "a")", true},
      {R"(key: "disk" operator: NODE_OPERATOR_EXISTS)", true},
      {R"(key: "zone" operator: NODE_OPERATOR_EXISTS)", false},
      {R"(key: "zone" operator: NODE_OPERATOR_DOES_NOT_EXIST)", true},
      {R"(key: "disk" operator: NODE_OPERATOR_DOES_NOT_EXIST)", false},
      {R"(key: "cores" operator: NODE_OPERATOR_GREATER_THAN values: "8")", true},
      {R"(key: "cores" operator: NODE_OPERATOR_GREATER_THAN values: "16")", false},
      {R"(key: "cores" operator: NODE_OPERATOR_LESS_THAN values: "17")", true},
      {R"(key: "disk" operator: NODE_OPERATOR_LESS_THAN values: "17")", false},
      {R"(key: "zone" operator: NODE_OPERATOR_GREATER_THAN values: "1")", false},
      {R"(key: "disk" values: "ssd")", false},
  };
  for (const auto& c : kCases) EXPECT_EQ(Fits(Term(c.requirement), Node()), c.met) << c.requirement;
}

TEST(PlacementTest, AllOfATermAndAnyOfTheTermsHold) {
  const std::string ssd = R"(labels { key: "disk" operator: NODE_OPERATOR_IN values: "ssd" })";
  const std::string zone = R"(labels { key: "zone" operator: NODE_OPERATOR_EXISTS })";
  EXPECT_FALSE(Fits(Rule("node_terms { " + ssd + zone + " }"), Node()));
  EXPECT_TRUE(Fits(Rule("node_terms { " + ssd + " } node_terms { " + zone + " }"), Node()));
  EXPECT_FALSE(Fits(Rule("node_terms {}"), Node())) << "a term without requirements is met by no node";
  const std::string name = R"(fields { key: "metadata.name" operator: NODE_OPERATOR_IN values: "n1" })";
  EXPECT_TRUE(Fits(Rule("node_terms { " + name + ssd + " }"), Node()));
  v1::Node other = Node();
  other.set_node_id("n2");
  EXPECT_FALSE(Fits(Rule("node_terms { " + name + " }"), other));
}

TEST(PlacementTest, TheSelectorAndTheTermsBothHold) {
  const std::string selector = R"(node_selector { key: "disk" value: "ssd" })";
  EXPECT_TRUE(Fits(Rule(selector), Node()));
  EXPECT_EQ(WhyNot(Rule(R"(node_selector { key: "disk" value: "hdd" })"), Node()),
            "has not the label disk=hdd");
  EXPECT_EQ(WhyNot(Rule(selector + R"(node_terms { labels { key: "zone" operator: NODE_OPERATOR_EXISTS } })"),
                   Node()),
            "is none with a label zone");
}

TEST(PlacementTest, TaintsKeepOffWhatDoesNotBearThem) {
  EXPECT_TRUE(Fits({}, Node("gpu=a100:PreferNoSchedule")));
  for (const std::string effect : {"NoSchedule", "NoExecute"}) {
    const v1::Node node = Node("gpu=a100:" + effect);
    EXPECT_EQ(WhyNot({}, node), "has the taint gpu=a100:" + effect);
    EXPECT_TRUE(Fits(Rule(R"(tolerations { key: "gpu" value: "a100" })"), node));
    EXPECT_TRUE(Fits(Rule(R"(tolerations { key: "gpu" any_value: true })"), node));
    EXPECT_TRUE(Fits(Rule(R"(tolerations { any_value: true })"), node));
    EXPECT_FALSE(Fits(Rule(R"(tolerations { key: "gpu" value: "t4" })"), node));
    EXPECT_FALSE(Fits(Rule(R"(tolerations { key: "disk" any_value: true })"), node));
    EXPECT_EQ(
        Fits(Rule(R"(tolerations { key: "gpu" any_value: true effect: TAINT_EFFECT_NO_SCHEDULE })"), node),
        effect == "NoSchedule");
  }
}

TEST(PlacementTest, WhatMakesNoSenseIsRefused) {
  const std::vector<std::pair<std::string, std::string>> kCases = {
      {R"(node_selector { key: "" value: "a" })", "no key: name a label"},
      {R"(node_terms { labels { key: "a" operator: NODE_OPERATOR_IN } })", "give at least one value"},
      {R"(node_terms { labels { key: "a" operator: NODE_OPERATOR_EXISTS values: "b" } })", "take no values"},
      {R"(node_terms { labels { key: "a" operator: NODE_OPERATOR_LESS_THAN values: "b" } })", "one integer"},
      {R"(node_terms { labels { key: "a" values: "b" } })", "use In, NotIn"},
      {R"(node_terms { fields { key: "spec.x" operator: NODE_OPERATOR_IN values: "b" } })",
       "metadata.name alone"},
      {R"(tolerations { value: "a" })", "use the operator Exists to tolerate all"},
  };
  for (const auto& [rule, text] : kCases) {
    const absl::Status status = CheckPlacement(Rule(rule));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << rule;
    EXPECT_THAT(status.message(), HasSubstr(text)) << rule;
    EXPECT_THAT(status.message(), HasSubstr("spec.template.placement")) << rule;
  }
  v1::Placement large;
  for (int i = 0; i <= 64; ++i) large.add_tolerations()->set_any_value(true);
  EXPECT_THAT(CheckPlacement(large).message(), HasSubstr("65 entries: give at most 64"));
  EXPECT_TRUE(
      CheckPlacement(Rule(R"(tolerations { any_value: true } node_selector { key: "a" value: "" })")).ok());
}

TEST(PlacementTest, GpusAreOfOneOfTheTypesWhateverTheirCase) {
  v1::Node node = Node();
  const v1::Placement rule = Rule(R"(gpu_types: ["NVIDIA A100", "h100"])");
  EXPECT_EQ(WhyNot(rule, node), "has not GPUs of type NVIDIA A100 or h100, but no GPU of a known type");
  node.set_gpu_type("nvidia a100");
  EXPECT_TRUE(Fits(rule, node));
  node.set_gpu_type("T4");
  EXPECT_EQ(WhyNot(rule, node), "has not GPUs of type NVIDIA A100 or h100, but T4");
  EXPECT_TRUE(AsksForNodes(rule));
  EXPECT_FALSE(AsksForNodes(Rule("tolerations { any_value: true }")));
  EXPECT_EQ(Describe(rule), "GPUs of type NVIDIA A100 or h100");
  for (const std::string& wrong : {std::string(), std::string("a\nb"), std::string(254, 'a')}) {
    v1::Placement placement;
    placement.add_gpu_types(wrong);
    EXPECT_THAT(CheckPlacement(placement).message(), HasSubstr("placement.gpu_types")) << wrong;
  }
}

TEST(PlacementTest, TaintsAreReadAndTold) {
  for (const std::string text : {"gpu=a100:NoSchedule", "gpu:NoExecute", "a/b=:PreferNoSchedule"}) {
    const auto taint = ParseTaint(text);
    ASSERT_TRUE(taint.ok()) << taint.status();
    EXPECT_EQ(Describe(*taint), text == "a/b=:PreferNoSchedule" ? "a/b:PreferNoSchedule" : text);
  }
  for (const std::string text : {"", "gpu", "gpu=a", "gpu:Never", ":NoSchedule"}) {
    EXPECT_THAT(std::string(ParseTaint(text).status().message()), HasSubstr("give KEY=VALUE:EFFECT")) << text;
  }
}

}  // namespace
}  // namespace adaptdl::jobspec
