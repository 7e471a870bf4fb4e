#include "libs/scheduling/resources.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

namespace adaptdl::scheduling {

bool IsPlace(const std::string& name) { return absl::StartsWith(name, kPlacePrefix); }

int64_t TimesThatFit(const Resources& request, const Resources& capacity, int64_t limit) {
  int64_t times = limit;
  for (const auto& [name, amount] : request) {
    if (amount <= 0) continue;
    const auto offered = capacity.find(name);
    const int64_t available = offered == capacity.end() ? 0 : std::max<int64_t>(offered->second, 0);
    times = std::min(times, available / amount);
  }
  return times;
}

std::string DescribeAmount(const std::string& name, int64_t amount) {
  if (name == kCpu) return absl::StrCat(amount, "m CPU");
  if (name == kGpu) return absl::StrCat(amount, amount == 1 ? " GPU" : " GPUs");
  if (name == kMemory) return absl::StrFormat("%.6g MiB of memory", static_cast<double>(amount) / (1 << 20));
  if (IsPlace(name))
    return absl::StrCat("a node that it may be placed on (", absl::StripPrefix(name, kPlacePrefix), ")");
  return absl::StrCat(amount, " ", name);
}

std::string Describe(const Resources& resources) {
  std::vector<std::string> parts;
  for (const auto& [name, amount] : resources) {
    if (amount != 0) parts.push_back(DescribeAmount(name, amount));
  }
  return parts.empty() ? "nothing" : absl::StrJoin(parts, ", ");
}

}  // namespace adaptdl::scheduling
