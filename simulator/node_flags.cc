#include "simulator/node_flags.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace adaptdl::simulator {
namespace {

absl::Status Complaint(absl::string_view flag, absl::string_view value, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(flag, ": \"", value, "\" ", what));
}

// The value of each type; nothing where the type is not named.
absl::StatusOr<std::vector<std::optional<std::string>>> ValuesByType(absl::string_view flag,
                                                                     const std::string& text,
                                                                     const std::vector<std::string>& types) {
  std::vector<std::optional<std::string>> values(types.size());
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const size_t equals = part.find('=');
    if (equals == absl::string_view::npos) {
      if (part.size() != text.size()) {
        return Complaint(flag, part, "names no GPU type; write TYPE=VALUE for each, or one value for all");
      }
      std::fill(values.begin(), values.end(), text);
      break;
    }
    const auto type = std::find(types.begin(), types.end(), part.substr(0, equals));
    if (type == types.end()) {
      return Complaint(flag, part.substr(0, equals),
                       absl::StrCat("is no GPU type of --cluster; it has ", absl::StrJoin(types, ", ")));
    }
    std::optional<std::string>& value = values[type - types.begin()];
    if (value) {
      return Complaint(flag, *type, "is named twice; name each GPU type once");
    }
    value = std::string(part.substr(equals + 1));
  }
  return values;
}

bool ParseBounds(const std::string& text, PoolBounds* pool) {
  const std::vector<std::string> ends = absl::StrSplit(text, "..");
  return ends.size() == 2 && absl::SimpleAtoi(ends[0], &pool->min) && absl::SimpleAtoi(ends[1], &pool->max) &&
         pool->min >= 0 && pool->max >= 1 && pool->max >= pool->min && pool->max <= kMostNodes;
}

// Prices of all types; those that are not named are as in `otherwise`, or missing.
absl::StatusOr<std::vector<double>> ParsePriceList(absl::string_view flag, const std::string& text,
                                                   const std::vector<std::string>& types,
                                                   const std::vector<double>* otherwise) {
  auto values = ValuesByType(flag, text, types);
  if (!values.ok()) {
    return values.status();
  }
  std::vector<double> prices;
  for (size_t type = 0; type < types.size(); ++type) {
    const std::optional<std::string>& value = (*values)[type];
    double price = 0;
    if (!value && otherwise == nullptr) {
      return Complaint(flag, text,
                       absl::StrCat("has no price for ", types[type], "; add ", types[type], "=USD"));
    }
    if (!value) {
      price = (*otherwise)[type];
    } else if (!absl::SimpleAtod(*value, &price) || !std::isfinite(price) || price < 0) {
      return Complaint(flag, *value, "is no price; write USD per node and hour, as in aws=12.24");
    }
    prices.push_back(price);
  }
  return prices;
}

}  // namespace

absl::StatusOr<ScalingCluster> ParseAutoscale(const std::string& text, const Cluster& start) {
  const std::vector<std::string>& types = start.gpu_types();
  auto values = ValuesByType("--autoscale", text, types);
  if (!values.ok()) {
    return values.status();
  }
  std::vector<PoolBounds> pools(types.size());
  std::vector<Cluster::Group> groups(types.size());
  for (const Cluster::Node& node : start.nodes()) {
    ++pools[node.type].start;
    groups[node.type] = {types[node.type], 0, node.capacity};
  }
  for (size_t type = 0; type < types.size(); ++type) {
    PoolBounds& pool = pools[type];
    pool.min = pool.max = pool.start;
    const std::optional<std::string>& value = (*values)[type];
    if (value && !ParseBounds(*value, &pool)) {
      return Complaint("--autoscale", *value, "is no range of nodes; write MIN..MAX, as in 1..16");
    }
    if (pool.start < pool.min || pool.start > pool.max) {
      return Complaint("--autoscale", *value,
                       absl::StrCat("does not contain the ", pool.start, " nodes of type ", types[type],
                                    " that --cluster starts with; change one of them"));
    }
    groups[type].nodes = pool.max;
  }
  absl::StatusOr<Cluster> cluster = Cluster::FromGroups(groups);
  if (!cluster.ok()) {
    return cluster.status();
  }
  return ScalingCluster{*std::move(cluster), std::move(pools)};
}

absl::StatusOr<std::vector<int>> ParseSpotNodes(const std::string& text, const Cluster& cluster) {
  auto values = ValuesByType("--spot-nodes", text, cluster.gpu_types());
  if (!values.ok()) {
    return values.status();
  }
  std::vector<int> counts;
  for (const std::optional<std::string>& value : *values) {
    counts.push_back(0);
    if (value && (!absl::SimpleAtoi(*value, &counts.back()) || counts.back() < 0)) {
      return Complaint("--spot-nodes", *value, "is no number of nodes; write one like 4, or aws=4");
    }
  }
  return counts;
}

absl::StatusOr<Prices> ParsePrices(const std::string& text, const std::string& spot_text,
                                   const Cluster& cluster) {
  const std::vector<std::string>& types = cluster.gpu_types();
  absl::StatusOr<std::vector<double>> prices = ParsePriceList("--price", text, types, nullptr);
  if (!prices.ok()) {
    return prices.status();
  }
  if (spot_text.empty()) {
    return Prices{*prices, *prices};
  }
  absl::StatusOr<std::vector<double>> spot = ParsePriceList("--spot-price", spot_text, types, &*prices);
  if (!spot.ok()) {
    return spot.status();
  }
  return Prices{*std::move(prices), *std::move(spot)};
}

}  // namespace adaptdl::simulator
