#include "services/supervisor/state/amounts.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace adaptdl::supervisor {
namespace {

constexpr char kExtended[] = "extended:";

}  // namespace

Amounts::Amounts(const v1::Resources& resources) {
  values_["cpu_millis"] = resources.cpu_millis();
  values_["memory_bytes"] = resources.memory_bytes();
  values_["gpus"] = resources.gpus();
  for (const auto& [name, amount] : resources.extended()) values_[absl::StrCat(kExtended, name)] = amount;
}

void Amounts::Add(const Amounts& other, int64_t times) {
  for (const auto& [name, amount] : other.values_) {
    int64_t& value = values_[name];
    value += times * amount;
    if (value == 0) values_.erase(name);
  }
}

void Amounts::RaiseTo(const Amounts& other) {
  for (const auto& [name, amount] : other.values_) {
    int64_t& value = values_[name];
    value = std::max(value, amount);
  }
}

std::string Amounts::Excess(const Amounts& capacity) const {
  std::vector<std::string> excess;
  for (const auto& [name, amount] : values_) {
    const auto it = capacity.values_.find(name);
    const int64_t limit = it == capacity.values_.end() ? 0 : it->second;
    if (amount > limit) excess.push_back(absl::StrCat(name, ": ", amount, " of ", limit));
  }
  return absl::StrJoin(excess, ", ");
}

v1::Resources Amounts::ToProto() const {
  v1::Resources resources;
  for (const auto& [name, amount] : values_) {
    absl::string_view extended = name;
    if (name == "cpu_millis") {
      resources.set_cpu_millis(amount);
    } else if (name == "memory_bytes") {
      resources.set_memory_bytes(amount);
    } else if (name == "gpus") {
      resources.set_gpus(static_cast<int32_t>(amount));
    } else if (absl::ConsumePrefix(&extended, kExtended)) {
      (*resources.mutable_extended())[std::string(extended)] = amount;
    }
  }
  return resources;
}

}  // namespace adaptdl::supervisor
