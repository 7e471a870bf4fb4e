#include "libs/kubejobs/placement.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "libs/jobfile/checker.h"
#include "libs/jobfile/document.h"
#include "libs/jobfile/fields.h"
#include "libs/jobfile/placement.h"
#include "libs/kubejobs/names.h"
#include "libs/kubejobs/problems.h"

namespace adaptdl::kubejobs {
namespace {

using kube::At;
using kube::Json;
using kube::TextAt;

constexpr char kPodPath[] = "spec.template.spec";
constexpr char kRequired[] = "requiredDuringSchedulingIgnoredDuringExecution";

constexpr struct {
  v1::NodeOperator value;
  const char* name;
} kOperators[] = {{v1::NODE_OPERATOR_IN, "In"},           {v1::NODE_OPERATOR_NOT_IN, "NotIn"},
                  {v1::NODE_OPERATOR_EXISTS, "Exists"},   {v1::NODE_OPERATOR_DOES_NOT_EXIST, "DoesNotExist"},
                  {v1::NODE_OPERATOR_GREATER_THAN, "Gt"}, {v1::NODE_OPERATOR_LESS_THAN, "Lt"}};

constexpr struct {
  v1::TaintEffect value;
  const char* name;
} kEffects[] = {{v1::TAINT_EFFECT_NO_SCHEDULE, "NoSchedule"},
                {v1::TAINT_EFFECT_PREFER_NO_SCHEDULE, "PreferNoSchedule"},
                {v1::TAINT_EFFECT_NO_EXECUTE, "NoExecute"}};

Json RequirementObject(const v1::NodeRequirement& requirement) {
  Json object = {{"key", requirement.key()}};
  for (const auto& known : kOperators) {
    if (known.value == requirement.operator_()) object["operator"] = known.name;
  }
  for (const std::string& value : requirement.values()) object["values"].push_back(value);
  return object;
}

Json TermObject(const v1::NodeSelectorTerm& term) {
  Json object = Json::object();
  for (const auto& label : term.labels()) object["matchExpressions"].push_back(RequirementObject(label));
  for (const auto& field : term.fields()) object["matchFields"].push_back(RequirementObject(field));
  return object;
}

Json TolerationObject(const v1::Toleration& toleration) {
  Json object = {{"operator", toleration.any_value() ? "Exists" : "Equal"}};
  if (!toleration.key().empty()) object["key"] = toleration.key();
  if (!toleration.any_value()) object["value"] = toleration.value();
  for (const auto& known : kEffects) {
    if (known.value == toleration.effect()) object["effect"] = known.name;
  }
  return object;
}

}  // namespace

absl::StatusOr<v1::Placement> PlacementOf(const Json& pod_spec) {
  Json fields = Json::object();
  const auto take = [&](const char* name, const Json& value) {
    if (!value.is_null()) fields[name] = value;
  };
  take("nodeSelector", At(pod_spec, {"nodeSelector"}));
  take("tolerations", At(pod_spec, {"tolerations"}));
  if (const Json& required = At(pod_spec, {"affinity", "nodeAffinity", kRequired}); !required.is_null()) {
    fields["affinity"]["nodeAffinity"][kRequired] = required;
  }
  // By the reader of job files, whose fields these are.
  const absl::StatusOr<jobfile::Node> node = jobfile::ParseDocument(kube::Dump(fields), kPlace);
  if (!node.ok()) return absl::InvalidArgumentError(WithoutPlaces(node.status().message()));
  jobfile::Problems problems(kPlace);
  CheckFields(*node, kPodPath, jobfile::PodFields(), &problems);
  v1::Placement placement = jobfile::ReadPlacement(*node, kPodPath, &problems);
  const absl::Status status = problems.ToStatus();
  if (!status.ok()) return absl::InvalidArgumentError(WithoutPlaces(status.message()));
  return placement;
}

void PutPlacement(const v1::Placement& placement, Json* pod_spec) {
  for (const auto& [name, value] : placement.node_selector()) (*pod_spec)["nodeSelector"][name] = value;
  for (const v1::NodeSelectorTerm& term : placement.node_terms()) {
    (*pod_spec)["affinity"]["nodeAffinity"][kRequired]["nodeSelectorTerms"].push_back(TermObject(term));
  }
  for (const v1::Toleration& toleration : placement.tolerations()) {
    (*pod_spec)["tolerations"].push_back(TolerationObject(toleration));
  }
}

void AddOurTolerations(Json* pod_spec) {
  const Json ours = {{"key", kNodeGroupLabel}, {"operator", "Equal"}, {"value", kOurNodeGroup}};
  Json tolerations = At(*pod_spec, {"tolerations"});
  if (!tolerations.is_array()) tolerations = Json::array();
  tolerations.push_back(ours);
  (*pod_spec)["tolerations"] = std::move(tolerations);
}

std::vector<v1::Taint> TaintsOf(const Json& node) {
  std::vector<v1::Taint> taints;
  const Json& list = At(node, {"spec", "taints"});
  if (!list.is_array()) return taints;
  for (const Json& item : list) {
    const std::string effect = TextAt(item, {"effect"});
    for (const auto& known : kEffects) {
      if (effect != known.name) continue;
      v1::Taint& taint = taints.emplace_back();
      taint.set_key(TextAt(item, {"key"}));
      taint.set_value(TextAt(item, {"value"}));
      taint.set_effect(known.value);
    }
  }
  return taints;
}

}  // namespace adaptdl::kubejobs
