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

namespace {

// In cores, as they are asked for.
std::string CpuText(int64_t millis) {
  return absl::StrFormat("%.10g %s", static_cast<double>(millis) / 1000, millis == 1000 ? "CPU" : "CPUs");
}

// With as many digits as tell what is lacking from what is there.
std::string MemoryText(int64_t bytes) {
  const double mebibytes = static_cast<double>(bytes) / (1 << 20);
  if (mebibytes < 1024) return absl::StrFormat("%.6g MiB of memory", mebibytes);
  return absl::StrFormat("%.6g GiB of memory", mebibytes / 1024);
}

}  // namespace

std::string DescribeAmount(const std::string& name, int64_t amount) {
  if (name == kCpu) return CpuText(amount);
  if (name == kGpu) return absl::StrCat(amount, amount == 1 ? " GPU" : " GPUs");
  if (name == kMemory) return MemoryText(amount);
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
