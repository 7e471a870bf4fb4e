#include "libs/jobfile/resources.h"

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/base/nearest.h"
#include "libs/jobfile/checker.h"
#include "libs/jobfile/document.h"
#include "libs/jobfile/fields.h"
#include "libs/jobfile/quantity.h"

namespace adaptdl::jobfile {
namespace {

constexpr absl::string_view kGpu = "nvidia.com/gpu";

struct Amount {
  int64_t value = 0;
  int line = 0;
};

using Amounts = std::map<std::string, Amount>;

// Devices and the like: counted, and requested exactly as limited.
bool IsExtended(absl::string_view name) { return absl::StrContains(name, '/'); }

absl::StatusOr<int64_t> ParseAmount(absl::string_view name, absl::string_view text) {
  if (name == "cpu") return ParseCpuMillis(text);
  if (IsExtended(name)) return ParseCount(text);
  return ParseBytes(text);
}

// Whether `name` is a resource that replicas can ask for; reports it if it is not.
bool CheckName(const Field& field, const std::string& path, Problems* problems) {
  const absl::string_view name = field.name;
  if (name == "cpu" || name == "memory" || (IsExtended(name) && name.size() <= 253)) return true;
  if (name == "ephemeral-storage" || absl::StartsWith(name, "hugepages-")) {
    problems->Warn(field.line, absl::StrCat(Join(path, name), " has no effect: nodes do not count it"));
    return false;
  }
  std::string text = absl::StrCat(Join(path, name), " is not a known resource");
  const absl::string_view nearest =
      absl::StrContains(absl::AsciiStrToLower(name), "gpu") ? kGpu : Nearest(name, {"cpu", "memory", kGpu});
  if (!nearest.empty()) absl::StrAppend(&text, "; did you mean ", nearest, "?");
  problems->Add(field.line, text);
  return false;
}

Amounts ReadAmounts(const Node* map, const std::string& path, Problems* problems) {
  Amounts amounts;
  if (map == nullptr) return amounts;
  for (const Field& field : map->fields) {
    const std::string field_path = Join(path, field.name);
    if (!CheckName(field, path, problems)) continue;
    if (!CheckType(field.value, Type::kQuantity, field_path, problems)) continue;
    const absl::StatusOr<int64_t> value = ParseAmount(field.name, field.value.text);
    if (!value.ok()) {
      problems->Add(field.value.line, absl::StrCat(field_path, ": ", value.status().message()));
    } else if (!amounts.insert({field.name, {*value, field.line}}).second) {
      problems->Add(field.line, absl::StrCat(field_path, " is given twice; keep one"));
    }
  }
  return amounts;
}

// Requests completed from limits.
Amounts Combine(Amounts requests, const Amounts& limits, const std::string& path, Problems* problems) {
  for (const auto& [name, limit] : limits) {
    const auto [request, inserted] = requests.insert({name, limit});
    if (inserted) continue;
    if (IsExtended(name) && request->second.value != limit.value) {
      problems->Add(request->second.line,
                    absl::StrCat(path, ".requests.", name, " must equal ", path, ".limits.", name));
    } else if (request->second.value > limit.value) {
      problems->Add(request->second.line,
                    absl::StrCat(path, ".requests.", name, " is more than ", path, ".limits.", name));
    }
  }
  return requests;
}

}  // namespace

void ReadResources(const Node& resources, const std::string& path, v1::Resources* out, Problems* problems) {
  CheckFields(resources, path, ResourcesFields(), problems);
  const Amounts requests = Combine(
      ReadAmounts(Get(&resources, "requests", Type::kMap), Join(path, "requests"), problems),
      ReadAmounts(Get(&resources, "limits", Type::kMap), Join(path, "limits"), problems), path, problems);
  for (const auto& [name, amount] : requests) {
    if (name == "cpu") {
      out->set_cpu_millis(amount.value);
    } else if (name == "memory") {
      out->set_memory_bytes(amount.value);
    } else if (name != kGpu) {
      (*out->mutable_extended())[name] = amount.value;
    } else if (amount.value <= std::numeric_limits<int32_t>::max()) {
      out->set_gpus(static_cast<int32_t>(amount.value));
    } else {
      problems->Add(amount.line,
                    absl::StrCat(path, ": ", amount.value, " GPUs are more than can be counted"));
    }
  }
}

}  // namespace adaptdl::jobfile
