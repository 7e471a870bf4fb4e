// What `adaptdl describe -o json` says of a job.

#ifndef ADAPTDL_TESTS_INTEGRATION_DESCRIBED_H_
#define ADAPTDL_TESTS_INTEGRATION_DESCRIBED_H_

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/base/file.h"
#include "nlohmann/json.hpp"
#include "tests/integration/process.h"
#include "tests/integration/test_cluster.h"

namespace adaptdl::integration {

// Its job.status.progress; null if there is none.
inline nlohmann::json DescribedProgress(const TestCluster& cluster, const std::string& job) {
  std::vector<std::string> arguments = {cluster.Binary("adaptdl")};
  for (const std::string& flag : cluster.CommandFlags()) arguments.push_back(flag);
  for (const char* argument : {"describe", "-o", "json"}) arguments.emplace_back(argument);
  arguments.push_back(job);
  const std::string log = absl::StrCat(cluster.folder(), "/described-", job, ".json");
  EXPECT_EQ(Process::Start(arguments, log).Wait(absl::Minutes(1)), 0);
  const auto described =
      nlohmann::json::parse(ReadWholeFile(log).value_or(""), nullptr, /*allow_exceptions=*/false);
  const nlohmann::json::json_pointer progress("/job/status/progress");
  return described.contains(progress) ? described.at(progress) : nlohmann::json();
}

// What the program has reported of itself, by name.
inline std::map<std::string, nlohmann::json> ReportedMetrics(const nlohmann::json& progress) {
  std::map<std::string, nlohmann::json> metrics;
  for (const nlohmann::json& metric : progress.value("metrics", nlohmann::json::array())) {
    metrics[metric.at("name")] = metric;
  }
  return metrics;
}

}  // namespace adaptdl::integration

#endif  // ADAPTDL_TESTS_INTEGRATION_DESCRIBED_H_
