#include "libs/jobspec/placement.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/jobspec/checks.h"
#include "libs/jobspec/limits.h"

namespace adaptdl::jobspec {
namespace {

constexpr int kMostRules = 64;
constexpr int kMostValues = 256;
// A prefix of a DNS name, "/", and a name; some more than Kubernetes takes.
constexpr size_t kMaxKeyLength = 317;
constexpr char kField[] = "spec.template.placement";
constexpr char kNodeName[] = "metadata.name";

constexpr struct {
  v1::TaintEffect effect;
  const char* name;
} kEffects[] = {{v1::TAINT_EFFECT_NO_SCHEDULE, "NoSchedule"},
                {v1::TAINT_EFFECT_PREFER_NO_SCHEDULE, "PreferNoSchedule"},
                {v1::TAINT_EFFECT_NO_EXECUTE, "NoExecute"}};

std::string EffectName(v1::TaintEffect effect) {
  for (const auto& known : kEffects) {
    if (known.effect == effect) return known.name;
  }
  return "any effect";
}

absl::Status CheckText(absl::string_view field, absl::string_view text) {
  if (text.size() <= kMaxKeyLength && !HasControl(text)) return absl::OkStatus();
  return Wrong(field, Show(text), absl::StrCat("give at most ", kMaxKeyLength, " printable characters"));
}

absl::Status CheckCount(absl::string_view field, int count, int most) {
  if (count <= most) return absl::OkStatus();
  return Wrong(field, absl::StrCat(count, " entries"), absl::StrCat("give at most ", most));
}

bool IsInteger(const std::string& text) {
  int64_t value = 0;
  return absl::SimpleAtoi(text, &value);
}

// Whether such an operator has values like these. Empty: it has.
std::string RemedyForValues(const v1::NodeRequirement& requirement) {
  const int count = requirement.values_size();
  switch (requirement.operator_()) {
    case v1::NODE_OPERATOR_IN:
    case v1::NODE_OPERATOR_NOT_IN:
      return count > 0 ? "" : "give at least one value";
    case v1::NODE_OPERATOR_EXISTS:
    case v1::NODE_OPERATOR_DOES_NOT_EXIST:
      return count == 0 ? "" : "Exists and DoesNotExist take no values";
    case v1::NODE_OPERATOR_GREATER_THAN:
    case v1::NODE_OPERATOR_LESS_THAN:
      return count == 1 && IsInteger(requirement.values(0)) ? "" : "Gt and Lt take one integer";
    default:
      return "use In, NotIn, Exists, DoesNotExist, Gt or Lt";
  }
}

absl::Status CheckRequirement(const std::string& field, const v1::NodeRequirement& requirement,
                              bool of_field) {
  absl::Status status = CheckText(absl::StrCat(field, ".key"), requirement.key());
  if (requirement.key().empty()) status.Update(Wrong(field, "no key", "name a label"));
  if (of_field && requirement.key() != kNodeName) {
    status.Update(Wrong(field, Show(requirement.key()), "nodes have the field metadata.name alone"));
  }
  status.Update(CheckCount(absl::StrCat(field, ".values"), requirement.values_size(), kMostValues));
  if (const std::string remedy = RemedyForValues(requirement); !remedy.empty()) {
    status.Update(Wrong(field, Show(absl::StrJoin(requirement.values(), ", ")), remedy));
  }
  for (const std::string& value : requirement.values()) {
    status.Update(CheckText(absl::StrCat(field, ".values"), value));
  }
  return status;
}

absl::Status CheckTerm(const std::string& field, const v1::NodeSelectorTerm& term) {
  absl::Status status = CheckCount(field, std::max(term.labels_size(), term.fields_size()), kMostRules);
  for (const v1::NodeRequirement& requirement : term.labels()) {
    status.Update(CheckRequirement(field, requirement, false));
  }
  for (const v1::NodeRequirement& requirement : term.fields()) {
    status.Update(CheckRequirement(field, requirement, true));
  }
  return status;
}

absl::Status CheckToleration(const std::string& field, const v1::Toleration& toleration) {
  absl::Status status = CheckText(field, toleration.key());
  status.Update(CheckText(field, toleration.value()));
  if (toleration.key().empty() && !toleration.any_value()) {
    status.Update(Wrong(field, "no key", "name a taint, or use the operator Exists to tolerate all"));
  }
  if (!v1::TaintEffect_IsValid(toleration.effect())) {
    status.Update(Wrong(field, absl::StrCat(static_cast<int>(toleration.effect())),
                        "use NoSchedule, PreferNoSchedule or NoExecute"));
  }
  return status;
}

const std::string* FindLabel(const v1::Node& node, const std::string& key) {
  const auto label = node.labels().find(key);
  return label == node.labels().end() ? nullptr : &label->second;
}

// `value`: of the label or field. Null: there is none.
bool Meets(const v1::NodeRequirement& requirement, const std::string* value) {
  const auto listed = [&] {
    return std::find(requirement.values().begin(), requirement.values().end(), *value) !=
           requirement.values().end();
  };
  const auto compared = [&](const auto& holds) {
    int64_t actual = 0;
    int64_t bound = 0;
    return value != nullptr && absl::SimpleAtoi(*value, &actual) && requirement.values_size() == 1 &&
           absl::SimpleAtoi(requirement.values(0), &bound) && holds(actual, bound);
  };
  switch (requirement.operator_()) {
    case v1::NODE_OPERATOR_IN:
      return value != nullptr && listed();
    case v1::NODE_OPERATOR_NOT_IN:
      return value == nullptr || !listed();
    case v1::NODE_OPERATOR_EXISTS:
      return value != nullptr;
    case v1::NODE_OPERATOR_DOES_NOT_EXIST:
      return value == nullptr;
    case v1::NODE_OPERATOR_GREATER_THAN:
      return compared([](int64_t a, int64_t b) { return a > b; });
    case v1::NODE_OPERATOR_LESS_THAN:
      return compared([](int64_t a, int64_t b) { return a < b; });
    default:
      return false;
  }
}

bool Meets(const v1::NodeSelectorTerm& term, const v1::Node& node) {
  if (term.labels().empty() && term.fields().empty()) return false;
  const auto label_met = [&](const auto& requirement) {
    return Meets(requirement, FindLabel(node, requirement.key()));
  };
  const auto field_met = [&](const auto& requirement) {
    return requirement.key() == kNodeName && Meets(requirement, &node.node_id());
  };
  return std::all_of(term.labels().begin(), term.labels().end(), label_met) &&
         std::all_of(term.fields().begin(), term.fields().end(), field_met);
}

bool KeepsOff(const v1::Taint& taint) {
  return taint.effect() == v1::TAINT_EFFECT_NO_SCHEDULE || taint.effect() == v1::TAINT_EFFECT_NO_EXECUTE;
}

bool Bears(const v1::Toleration& toleration, const v1::Taint& taint) {
  if (toleration.effect() != v1::TAINT_EFFECT_UNSPECIFIED && toleration.effect() != taint.effect())
    return false;
  if (toleration.key().empty()) return toleration.any_value();
  return toleration.key() == taint.key() && (toleration.any_value() || toleration.value() == taint.value());
}

bool Bears(const v1::Placement& placement, const v1::Taint& taint) {
  return std::any_of(placement.tolerations().begin(), placement.tolerations().end(),
                     [&](const v1::Toleration& toleration) { return Bears(toleration, taint); });
}

std::string Describe(const v1::NodeRequirement& requirement) {
  const std::string values = absl::StrCat("(", absl::StrJoin(requirement.values(), ", "), ")");
  switch (requirement.operator_()) {
    case v1::NODE_OPERATOR_IN:
      return absl::StrCat(requirement.key(), " in ", values);
    case v1::NODE_OPERATOR_NOT_IN:
      return absl::StrCat(requirement.key(), " not in ", values);
    case v1::NODE_OPERATOR_EXISTS:
      return absl::StrCat("a label ", requirement.key());
    case v1::NODE_OPERATOR_DOES_NOT_EXIST:
      return absl::StrCat("no label ", requirement.key());
    case v1::NODE_OPERATOR_GREATER_THAN:
      return absl::StrCat(requirement.key(), " above ", values);
    default:
      return absl::StrCat(requirement.key(), " below ", values);
  }
}

std::string DescribeTerms(const v1::Placement& placement) {
  std::vector<std::string> terms;
  for (const v1::NodeSelectorTerm& term : placement.node_terms()) {
    std::vector<std::string> requirements;
    for (const v1::NodeRequirement& requirement : term.labels())
      requirements.push_back(Describe(requirement));
    for (const v1::NodeRequirement& requirement : term.fields())
      requirements.push_back(Describe(requirement));
    terms.push_back(absl::StrJoin(requirements, " and "));
  }
  return absl::StrJoin(terms, ", or ");
}

std::string DescribeGpuTypes(const v1::Placement& placement) {
  return absl::StrCat("GPUs of type ", absl::StrJoin(placement.gpu_types(), " or "));
}

}  // namespace

absl::Status CheckPlacement(const v1::Placement& placement) {
  const std::string field = kField;
  absl::Status status =
      CheckCount(field + ".node_selector", static_cast<int>(placement.node_selector().size()), kMostRules);
  for (const auto& [key, value] : placement.node_selector()) {
    if (key.empty()) status.Update(Wrong(field + ".node_selector", "no key", "name a label"));
    status.Update(CheckText(field + ".node_selector", key));
    status.Update(CheckText(field + ".node_selector", value));
  }
  status.Update(CheckCount(field + ".node_terms", placement.node_terms_size(), kMostRules));
  for (const v1::NodeSelectorTerm& term : placement.node_terms()) {
    status.Update(CheckTerm(field + ".node_terms", term));
  }
  status.Update(CheckCount(field + ".tolerations", placement.tolerations_size(), kMostRules));
  for (const v1::Toleration& toleration : placement.tolerations()) {
    status.Update(CheckToleration(field + ".tolerations", toleration));
  }
  status.Update(CheckCount(field + ".gpu_types", placement.gpu_types_size(), kMostRules));
  for (const std::string& type : placement.gpu_types()) {
    if (!type.empty() && type.size() <= kMaxGpuTypeLength && !HasControl(type)) continue;
    status.Update(Wrong(field + ".gpu_types", Show(type),
                        absl::StrCat("give the type of a GPU as \"adaptdl nodes\" shows it, of 1 to ",
                                     kMaxGpuTypeLength, " printable characters")));
  }
  return status;
}

absl::Status CheckTaints(absl::string_view field,
                         const google::protobuf::RepeatedPtrField<v1::Taint>& taints) {
  absl::Status status = CheckCount(field, taints.size(), kMostRules);
  for (const v1::Taint& taint : taints) {
    status.Update(CheckText(field, taint.key()));
    status.Update(CheckText(field, taint.value()));
    if (taint.key().empty()) status.Update(Wrong(field, "no key", "name the taint"));
    if (taint.effect() == v1::TAINT_EFFECT_UNSPECIFIED || !v1::TaintEffect_IsValid(taint.effect())) {
      status.Update(Wrong(field, Show(taint.key()), "its effect is none that is known"));
    }
  }
  return status;
}

absl::StatusOr<v1::Taint> ParseTaint(absl::string_view text) {
  v1::Taint taint;
  const size_t colon = text.rfind(':');
  const absl::string_view effect = colon == text.npos ? "" : text.substr(colon + 1);
  const absl::string_view pair = text.substr(0, colon);
  const size_t equals = pair.find('=');
  taint.set_key(std::string(pair.substr(0, equals)));
  if (equals != pair.npos) taint.set_value(std::string(pair.substr(equals + 1)));
  for (const auto& known : kEffects) {
    if (effect == known.name) taint.set_effect(known.effect);
  }
  if (taint.key().empty() || taint.effect() == v1::TAINT_EFFECT_UNSPECIFIED) {
    return Wrong("taint", Show(text),
                 "give KEY=VALUE:EFFECT or KEY:EFFECT, with NoSchedule, PreferNoSchedule or NoExecute");
  }
  return taint;
}

std::string Describe(const v1::Taint& taint) {
  return absl::StrCat(taint.key(), taint.value().empty() ? "" : "=", taint.value(), ":",
                      EffectName(taint.effect()));
}

bool AsksForNodes(const v1::Placement& placement) {
  return !placement.node_selector().empty() || !placement.node_terms().empty() ||
         !placement.gpu_types().empty();
}

bool Fits(const v1::Placement& placement, const v1::Node& node) { return WhyNot(placement, node).empty(); }

std::string WhyNot(const v1::Placement& placement, const v1::Node& node) {
  // In an order that is always the same.
  const std::map<std::string, std::string> selector(placement.node_selector().begin(),
                                                    placement.node_selector().end());
  for (const auto& [key, value] : selector) {
    const std::string* actual = FindLabel(node, key);
    if (actual == nullptr || *actual != value) return absl::StrCat("has not the label ", key, "=", value);
  }
  const auto met = [&](const v1::NodeSelectorTerm& term) { return Meets(term, node); };
  if (!placement.node_terms().empty() &&
      std::none_of(placement.node_terms().begin(), placement.node_terms().end(), met)) {
    return absl::StrCat("is none with ", DescribeTerms(placement));
  }
  const auto is_type = [&](const std::string& type) { return absl::EqualsIgnoreCase(type, node.gpu_type()); };
  if (!placement.gpu_types().empty() &&
      std::none_of(placement.gpu_types().begin(), placement.gpu_types().end(), is_type)) {
    return absl::StrCat("has not ", DescribeGpuTypes(placement), ", but ",
                        node.gpu_type().empty() ? "no GPU of a known type" : node.gpu_type());
  }
  for (const v1::Taint& taint : node.taints()) {
    if (KeepsOff(taint) && !Bears(placement, taint)) return absl::StrCat("has the taint ", Describe(taint));
  }
  return "";
}

std::string Describe(const v1::Placement& placement) {
  std::vector<std::string> labels;
  for (const auto& [key, value] : placement.node_selector()) labels.push_back(absl::StrCat(key, "=", value));
  std::sort(labels.begin(), labels.end());
  std::vector<std::string> parts;
  if (!labels.empty()) parts.push_back(absl::StrCat("the label ", absl::StrJoin(labels, ", ")));
  if (!placement.node_terms().empty()) parts.push_back(DescribeTerms(placement));
  if (!placement.gpu_types().empty()) parts.push_back(DescribeGpuTypes(placement));
  return absl::StrJoin(parts, "; ");
}

}  // namespace adaptdl::jobspec
