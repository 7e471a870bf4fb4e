#include "services/allocator/places.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/jobspec/placement.h"

namespace adaptdl::allocator {
namespace {

// More replicas are on no node.
constexpr int64_t kPlenty = 1 << 20;
constexpr size_t kMostReasons = 4;

// Why no node is admitted, for people: "has not the label disk=ssd (2 nodes)".
std::string WhyNone(const v1::Placement& placement, const std::vector<const v1::Node*>& nodes) {
  std::map<std::string, int> counts;
  for (const v1::Node* node : nodes) ++counts[jobspec::WhyNot(placement, *node)];
  std::vector<std::string> reasons;
  for (const auto& [why, count] : counts) {
    if (reasons.size() == kMostReasons) {
      reasons.emplace_back("...");
      break;
    }
    reasons.push_back(absl::StrCat(count, count == 1 ? " node " : " nodes, each of which ", why));
  }
  return absl::StrJoin(reasons, "; ");
}

}  // namespace

Places::Places(std::vector<const v1::Node*> known, std::vector<scheduling::NodeInfo>* nodes)
    : known_(std::move(known)), nodes_(*nodes) {
  tainted_ =
      std::any_of(known_.begin(), known_.end(), [](const v1::Node* n) { return n->taints_size() > 0; });
}

std::string Places::ResourceFor(const v1::Placement& placement) {
  if (!jobspec::AsksForNodes(placement) && !tainted_) return "";
  const auto [rule, is_new] = by_rule_.emplace(placement.SerializeAsString(), "");
  if (!is_new) return rule->second;
  std::vector<bool> admitted(known_.size());
  for (size_t n = 0; n < known_.size(); ++n) admitted[n] = jobspec::Fits(placement, *known_[n]);
  if (std::find(admitted.begin(), admitted.end(), false) != admitted.end()) {
    rule->second = NameFor(placement, admitted);
  }
  return rule->second;
}

std::string Places::NameFor(const v1::Placement& placement, const std::vector<bool>& admitted) {
  const auto [entry, is_new] = by_nodes_.emplace(admitted, "");
  if (!is_new) return entry->second;
  const bool none = std::find(admitted.begin(), admitted.end(), true) == admitted.end();
  std::string text = none ? WhyNone(placement, known_) : jobspec::Describe(placement);
  if (text.empty()) text = "whose taints it tolerates";
  std::string name = absl::StrCat(scheduling::kPlacePrefix, text);
  const auto taken = [&] {
    return std::any_of(by_nodes_.begin(), by_nodes_.end(),
                       [&](const auto& other) { return other.second == name; });
  };
  for (int i = 2; taken(); ++i) name = absl::StrCat(scheduling::kPlacePrefix, text, " (", i, ")");
  for (size_t n = 0; n < admitted.size(); ++n) {
    if (admitted[n]) nodes_[n].capacity[name] = kPlenty;
  }
  entry->second = name;
  return name;
}

}  // namespace adaptdl::allocator
