#include "services/allocator/relative_speeds.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace adaptdl::allocator {
namespace {

constexpr double kStep = 0.05;

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace

void RelativeSpeeds::Add(const std::map<std::string, double>& compute_times) {
  for (const auto& [from, slow] : compute_times) {
    for (const auto& [to, fast] : compute_times) {
      if (from != to) ratios_[from][to].push_back(std::log(slow / fast));
    }
  }
}

std::optional<double> RelativeSpeeds::Ratio(const std::string& from, const std::string& to) const {
  std::map<std::string, double> reached = {{from, 0.0}};
  std::deque<std::string> next = {from};
  while (!next.empty() && reached.count(to) == 0) {
    const std::string type = next.front();
    next.pop_front();
    const auto known = ratios_.find(type);
    if (known == ratios_.end()) continue;
    for (const auto& [other, logarithms] : known->second) {
      if (reached.emplace(other, reached.at(type) + Median(logarithms)).second) next.push_back(other);
    }
  }
  const auto found = reached.find(to);
  if (found == reached.end()) return std::nullopt;
  return std::exp(std::round(found->second / kStep) * kStep);
}

}  // namespace adaptdl::allocator
