#include "libs/jobfile/placement.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/jobfile/fields.h"
#include "libs/jobspec/placement.h"

namespace adaptdl::jobfile {
namespace {

constexpr struct {
  absl::string_view name;
  v1::NodeOperator value;
} kOperators[] = {{"In", v1::NODE_OPERATOR_IN},           {"NotIn", v1::NODE_OPERATOR_NOT_IN},
                  {"Exists", v1::NODE_OPERATOR_EXISTS},   {"DoesNotExist", v1::NODE_OPERATOR_DOES_NOT_EXIST},
                  {"Gt", v1::NODE_OPERATOR_GREATER_THAN}, {"Lt", v1::NODE_OPERATOR_LESS_THAN}};

constexpr struct {
  absl::string_view name;
  v1::TaintEffect value;
} kEffects[] = {{"", v1::TAINT_EFFECT_UNSPECIFIED},
                {"NoSchedule", v1::TAINT_EFFECT_NO_SCHEDULE},
                {"PreferNoSchedule", v1::TAINT_EFFECT_PREFER_NO_SCHEDULE},
                {"NoExecute", v1::TAINT_EFFECT_NO_EXECUTE}};

class PlacementReader {
 public:
  explicit PlacementReader(Problems* problems) : problems_(*problems) {}

  void ReadSelector(const Node& map, const std::string& path) {
    for (const Field& label : map.fields) {
      if (!CheckType(label.value, Type::kText, Join(path, label.name), &problems_)) continue;
      (*placement_.mutable_node_selector())[label.name] = label.value.text;
    }
  }

  void ReadAffinity(const Node& affinity, const std::string& path) {
    CheckFields(affinity, path, AffinityFields(), &problems_);
    const Node* of_nodes = Get(&affinity, "nodeAffinity", Type::kMap);
    if (of_nodes == nullptr) return;
    const std::string node_path = Join(path, "nodeAffinity");
    CheckFields(*of_nodes, node_path, NodeAffinityFields(), &problems_);
    const absl::string_view required = "requiredDuringSchedulingIgnoredDuringExecution";
    const Node* selector = Get(of_nodes, required, Type::kMap);
    const std::string selector_path = Join(node_path, required);
    if (selector == nullptr) return;
    CheckFields(*selector, selector_path, NodeSelectorFields(), &problems_);
    ForEachMap(Get(selector, "nodeSelectorTerms", Type::kList), Join(selector_path, "nodeSelectorTerms"),
               [this](const Node& term, const std::string& at) { ReadTerm(term, at); });
  }

  void ReadTolerations(const Node& list, const std::string& path) {
    ForEachMap(&list, path, [this](const Node& item, const std::string& at) { ReadToleration(item, at); });
  }

  v1::Placement& placement() { return placement_; }

 private:
  template <typename Read>
  void ForEachMap(const Node* list, const std::string& path, const Read& read) {
    if (list == nullptr) return;
    for (size_t i = 0; i < list->items.size(); ++i) {
      const std::string at = absl::StrCat(path, "[", i, "]");
      if (CheckType(list->items[i], Type::kMap, at, &problems_)) read(list->items[i], at);
    }
  }

  std::string TextOf(const Node& map, absl::string_view name) {
    const Node* node = Get(&map, name, Type::kText);
    return node == nullptr ? "" : node->text;
  }

  void ReadTerm(const Node& term, const std::string& path) {
    CheckFields(term, path, NodeSelectorTermFields(), &problems_);
    v1::NodeSelectorTerm* out = placement_.add_node_terms();
    const auto read = [&](absl::string_view name, auto add) {
      ForEachMap(Get(&term, name, Type::kList), Join(path, name),
                 [&](const Node& item, const std::string& at) { ReadRequirement(item, at, add()); });
    };
    read("matchExpressions", [out] { return out->add_labels(); });
    read("matchFields", [out] { return out->add_fields(); });
  }

  void ReadRequirement(const Node& item, const std::string& path, v1::NodeRequirement* out) {
    CheckFields(item, path, NodeRequirementFields(), &problems_);
    out->set_key(TextOf(item, "key"));
    const std::string name = TextOf(item, "operator");
    for (const auto& known : kOperators) {
      if (name == known.name) out->set_operator_(known.value);
    }
    const Node* values = Get(&item, "values", Type::kList);
    if (values == nullptr) return;
    for (size_t i = 0; i < values->items.size(); ++i) {
      if (CheckType(values->items[i], Type::kText, absl::StrCat(path, ".values[", i, "]"), &problems_)) {
        out->add_values(values->items[i].text);
      }
    }
  }

  void ReadToleration(const Node& item, const std::string& path) {
    CheckFields(item, path, TolerationFields(), &problems_);
    v1::Toleration* out = placement_.add_tolerations();
    out->set_key(TextOf(item, "key"));
    out->set_value(TextOf(item, "value"));
    const std::string how = TextOf(item, "operator");
    out->set_any_value(how == "Exists");
    if (!how.empty() && how != "Exists" && how != "Equal") {
      problems_.Add(item.line, absl::StrCat(path, ".operator must be Exists or Equal, not ", Quoted(how)));
    }
    const std::string effect = TextOf(item, "effect");
    bool is_known = false;
    for (const auto& known : kEffects) {
      if (effect != known.name) continue;
      is_known = true;
      out->set_effect(known.value);
    }
    if (!is_known) {
      problems_.Add(item.line,
                    absl::StrCat(path, ".effect must be NoSchedule, PreferNoSchedule or NoExecute, not ",
                                 Quoted(effect)));
    }
  }

  Problems& problems_;
  v1::Placement placement_;
};

}  // namespace

v1::Placement ReadPlacement(const Node& pod, const std::string& path, Problems* problems) {
  PlacementReader reader(problems);
  if (const Node* selector = Get(&pod, "nodeSelector", Type::kMap)) {
    reader.ReadSelector(*selector, Join(path, "nodeSelector"));
  }
  if (const Node* affinity = Get(&pod, "affinity", Type::kMap)) {
    reader.ReadAffinity(*affinity, Join(path, "affinity"));
  }
  if (const Node* tolerations = Get(&pod, "tolerations", Type::kList)) {
    reader.ReadTolerations(*tolerations, Join(path, "tolerations"));
  }
  const absl::Status status = jobspec::CheckPlacement(reader.placement());
  if (!status.ok()) problems->Add(pod.line, status.message());
  return reader.placement();
}

}  // namespace adaptdl::jobfile
