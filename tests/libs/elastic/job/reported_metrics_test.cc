#include "libs/elastic/job/reported_metrics.h"

#include <cmath>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/say.h"
#include "nlohmann/json.hpp"

namespace adaptdl::elastic {
namespace {

std::vector<std::string>& HeardOfMetrics() {
  static auto* const heard = new std::vector<std::string>();
  return *heard;
}

class ReportedMetricsTest : public testing::Test {
 protected:
  void SetUp() override {
    HeardOfMetrics().clear();
    SetListener([](const Said& said) { HeardOfMetrics().push_back(said.text); });
  }
  void TearDown() override { SetListener(nullptr); }

  // "name=value@step" of each.
  static std::vector<std::string> Texts(const ReportedMetrics& metrics) {
    std::vector<std::string> texts;
    for (const ReportedMetric& metric : metrics.Latest()) {
      texts.push_back(absl::StrCat(metric.name, "=", metric.value, "@", metric.step));
    }
    return texts;
  }

  ReportedMetrics metrics_;
};

TEST_F(ReportedMetricsTest, TheLatestValueOfEachNameCounts) {
  EXPECT_TRUE(metrics_.Latest().empty());
  metrics_.Report("loss", 2, -1);
  metrics_.SetSteps(7);
  metrics_.Report("loss", 1.5, -1);
  metrics_.Report("val/accuracy", 0.25, /*step=*/3);
  EXPECT_THAT(Texts(metrics_), testing::ElementsAre("loss=1.5@7", "val/accuracy=0.25@3"));
  EXPECT_TRUE(HeardOfMetrics().empty());
}

TEST_F(ReportedMetricsTest, NamesAreOfTheProtocolsKind) {
  const std::string longest(64, 'a');
  for (const std::string& name : {std::string("a"), std::string("Loss_2.b/c-d"), longest}) {
    EXPECT_TRUE(IsMetricName(name)) << name;
  }
  for (const std::string& name : {std::string(), std::string("2a"), std::string("_a"), std::string("a b"),
                                  std::string("a\n"), std::string("\xc3\xa4"), longest + "a"}) {
    EXPECT_FALSE(IsMetricName(name)) << name;
  }
}

TEST_F(ReportedMetricsTest, WhatCannotBeReportedIsSaidOnce) {
  for (int i = 0; i < 3; ++i) metrics_.Report("my\nloss", 1, -1);
  metrics_.Report("", 1, -1);
  ASSERT_EQ(HeardOfMetrics().size(), 1u);
  EXPECT_THAT(HeardOfMetrics()[0], testing::HasSubstr("\"my\\nloss\""));
  for (int i = 0; i < 20; ++i) metrics_.Report(absl::StrCat("m", i), i, -1);
  EXPECT_EQ(metrics_.Latest().size(), ReportedMetrics::kMost);
  ASSERT_EQ(HeardOfMetrics().size(), 2u);
  EXPECT_THAT(HeardOfMetrics()[1], testing::HasSubstr("\"m16\""));
  metrics_.Report("m3", 30, -1);
  EXPECT_EQ(metrics_.Latest()[3].value, 30) << "those that are known go on";
}

TEST_F(ReportedMetricsTest, GoOnFromWhatWasSavedWhateverTheValues) {
  metrics_.SetSteps(5);
  metrics_.Report("a", 0.1, -1);
  metrics_.Report("nan", std::nan(""), -1);
  metrics_.Report("inf", -std::numeric_limits<double>::infinity(), -1);
  nlohmann::json job;
  metrics_.Save(&job);
  ReportedMetrics after;
  after.Load(nlohmann::json::parse(job.dump()));
  const std::vector<ReportedMetric> latest = after.Latest();
  ASSERT_EQ(latest.size(), 3u);
  EXPECT_EQ(latest[0].value, 0.1);
  EXPECT_EQ(latest[0].step, 5);
  EXPECT_TRUE(std::isnan(latest[1].value));
  EXPECT_EQ(latest[2].value, -std::numeric_limits<double>::infinity());
}

TEST_F(ReportedMetricsTest, WhatWasNotSavedByThisIsLeftAside) {
  metrics_.Load(nlohmann::json::object());
  metrics_.Load(
      {{"metrics", {{"a b", "1", 1}, {"a", 1, 1}, {"b", "1"}, "c", {"d", "x", 1}, {"e", "2", -4}}}});
  EXPECT_THAT(Texts(metrics_), testing::ElementsAre("e=2@0"));
  metrics_.Load({{"metrics", 3}});
  EXPECT_TRUE(metrics_.Latest().empty());
}

TEST_F(ReportedMetricsTest, AnyThreadMayReport) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this, name = absl::StrCat("m", i)] {
      for (int value = 0; value < 500; ++value) metrics_.Report(name, value, value);
    });
  }
  for (int i = 0; i < 100; ++i) EXPECT_LE(metrics_.Latest().size(), 4u);
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(Texts(metrics_),
              testing::UnorderedElementsAre("m0=499@499", "m1=499@499", "m2=499@499", "m3=499@499"));
}

}  // namespace
}  // namespace adaptdl::elastic
