#include "libs/kubejobs/placement.h"

#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "libs/jobspec/placement.h"

namespace adaptdl::kubejobs {
namespace {

using kube::Json;
using testing::HasSubstr;
using testing::SizeIs;

const Json& Pod() {
  static const Json* const pod = new Json(Json::parse(R"({
    "nodeSelector": {"disk": "ssd"},
    "affinity": {
      "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": []},
      "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [],
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
          {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]},
                                {"key": "cores", "operator": "Gt", "values": ["8"]}]},
          {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n9"]}]}]}}},
    "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"},
                    {"key": "team", "value": "vision", "effect": "NoExecute", "tolerationSeconds": 30},
                    {"operator": "Exists"}]})"));
  return *pod;
}

TEST(PlacementTest, PodsSayWhereTheyMayBePlaced) {
  const auto placement = PlacementOf(Pod());
  ASSERT_TRUE(placement.ok()) << placement.status();
  EXPECT_EQ(placement->node_selector().at("disk"), "ssd");
  ASSERT_THAT(placement->node_terms(), SizeIs(2));
  EXPECT_EQ(placement->node_terms(0).labels(1).operator_(), v1::NODE_OPERATOR_GREATER_THAN);
  EXPECT_EQ(placement->node_terms(1).fields(0).values(0), "n9");
  ASSERT_THAT(placement->tolerations(), SizeIs(3));
  EXPECT_TRUE(placement->tolerations(0).any_value());
  EXPECT_EQ(placement->tolerations(1).effect(), v1::TAINT_EFFECT_NO_EXECUTE);
}

TEST(PlacementTest, WhatIsPutIntoAPodIsReadFromIt) {
  const auto placement = PlacementOf(Pod());
  Json pod = Json::object();
  PutPlacement(*placement, &pod);
  const auto again = PlacementOf(pod);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(*placement, *again)) << pod;
}

TEST(PlacementTest, NothingMeansAnywhere) {
  const auto placement = PlacementOf(Json::object());
  ASSERT_TRUE(placement.ok());
  EXPECT_EQ(placement->ByteSizeLong(), 0U);
}

TEST(PlacementTest, ProblemsNameTheField) {
  const Json operators = Json::parse(R"({"tolerations": [{"key": "a", "operator": "Maybe"}]})");
  const auto placement = PlacementOf(operators);
  EXPECT_EQ(placement.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(placement.status().message(), HasSubstr("spec.template.spec.tolerations[0].operator"));
  EXPECT_FALSE(PlacementOf(Json::parse(R"({"nodeSelector": []})")).ok());
  EXPECT_FALSE(PlacementOf(Json::parse(R"({"nodeSelector": {"a": {}}})")).ok());
}

TEST(PlacementTest, ReplicasBearTheTaintOfOurNodes) {
  const Json node = Json::parse(R"({"spec": {"taints": [
      {"key": "petuum.com/nodegroup", "value": "adaptdl", "effect": "NoExecute"}]}})");
  v1::Node known;
  for (const v1::Taint& taint : TaintsOf(node)) *known.add_taints() = taint;
  Json pod = Json::parse(R"({"nodeSelector": {}})");
  EXPECT_FALSE(jobspec::Fits(*PlacementOf(pod), known));
  AddOurTolerations(&pod);
  EXPECT_TRUE(jobspec::Fits(*PlacementOf(pod), known));
  Json odd = {{"tolerations", "none"}};
  AddOurTolerations(&odd);
  EXPECT_THAT(odd["tolerations"], SizeIs(1));
}

TEST(PlacementTest, TaintsAreRead) {
  const Json node = Json::parse(R"({"spec": {"taints": [
      {"key": "gpu", "value": "yes", "effect": "NoSchedule"}, {"key": "odd", "effect": "NoSuchEffect"}, 7]}})");
  const std::vector<v1::Taint> taints = TaintsOf(node);
  ASSERT_THAT(taints, SizeIs(1));
  EXPECT_EQ(jobspec::Describe(taints[0]), "gpu=yes:NoSchedule");
  EXPECT_THAT(TaintsOf(Json::parse(R"({"spec": {"taints": 1}})")), SizeIs(0));
  EXPECT_THAT(TaintsOf(Json()), SizeIs(0));
}

}  // namespace
}  // namespace adaptdl::kubejobs
