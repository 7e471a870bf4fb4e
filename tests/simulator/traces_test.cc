// The peers' traces, read as the published simulators read them.

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "simulator/traces/application.h"
#include "simulator/traces/csv.h"
#include "tests/simulator/peers.h"

namespace adaptdl::simulator {
namespace {

// What is lost by writing doubles as text.
constexpr double kExact = 1e-9;

const Application& Pollux(const std::string& name) {
  static auto* applications = new std::map<std::string, Application>();
  auto found = applications->find(name);
  if (found == applications->end()) {
    absl::StatusOr<Application> loaded =
        LoadApplication({PolluxFolder()}, name, {"aws"}, TraceRules::kPollux);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    found = applications->emplace(name, *loaded).first;
  }
  return found->second;
}

std::vector<int> ParsePlacement(const std::string& text) {
  std::vector<int> shape;
  for (const absl::string_view node : absl::StrSplit(text, '-')) {
    int gpus = 0;
    EXPECT_TRUE(absl::SimpleAtoi(node, &gpus));
    shape.push_back(gpus);
  }
  return shape;
}

bool Close(double a, double b, double tolerance) { return std::abs(a - b) <= tolerance * std::abs(b); }

TEST(PeerTraces, ThroughputsMatchAllChecks) {
  SKIP_WITHOUT_PEERS();
  const auto table = CsvTable::Read(PolluxFolder() + "/throughput-check.csv",
                                    {"application", "placement", "local_bsz", "step_time", "sync_time"});
  ASSERT_TRUE(table.ok()) << table.status();
  int triangulated = 0;
  int triangulated_exactly = 0;
  for (size_t row = 0; row < table->rows(); ++row) {
    const std::string where = table->Text(row, 0) + " " + table->Text(row, 1) + " " + table->Text(row, 2);
    const std::vector<int> shape = ParsePlacement(table->Text(row, 1));
    const auto time = Pollux(table->Text(row, 0)).step_times[0].Resolve(shape).At(*table->Integer(row, 2));
    if (table->Text(row, 3).empty()) {
      EXPECT_FALSE(time.has_value()) << where;
      continue;
    }
    ASSERT_TRUE(time.has_value()) << where;
    const double step = *table->Number(row, 3);
    const double sync = *table->Number(row, 4);
    // ncf has no table, as it never runs on several nodes: its overlapping tetrahedra leave some choice.
    if (table->Text(row, 0) == "ncf" && shape.size() > 4) {
      ++triangulated;
      triangulated_exactly += Close(time->step, step, kExact) && Close(time->sync, sync, kExact);
      EXPECT_TRUE(Close(time->step, step, 0.03)) << where << ": " << time->step << " instead of " << step;
      continue;
    }
    EXPECT_TRUE(Close(time->step, step, kExact)) << where << ": " << time->step << " instead of " << step;
    EXPECT_TRUE(Close(time->sync, sync, kExact)) << where << ": " << time->sync << " instead of " << sync;
  }
  EXPECT_EQ(table->rows(), 360u);
  EXPECT_GE(triangulated_exactly, triangulated * 0.9) << "of " << triangulated;
}

TEST(PeerTraces, GradientStatisticsMatchAllChecks) {
  SKIP_WITHOUT_PEERS();
  const auto table = CsvTable::Read(
      PolluxFolder() + "/gradstats-check.csv",
      {"application", "batch_size", "epoch", "grad_sqr", "grad_var", "progress_after_epoch", "iteration"});
  ASSERT_TRUE(table.ok()) << table.status();
  for (size_t row = 0; row < table->rows(); ++row) {
    const std::string where = table->Text(row, 0) + " " + table->Text(row, 1) + " " + table->Text(row, 2);
    const TrainingCurve& curve = Pollux(table->Text(row, 0)).curve;
    const int64_t batch = *table->Integer(row, 1);
    const int epoch = static_cast<int>(*table->Integer(row, 2));
    const goodput::GradParams gradient = curve.Gradient(batch, epoch);
    EXPECT_TRUE(Close(gradient.sqr, *table->Number(row, 3), kExact)) << where;
    EXPECT_TRUE(Close(gradient.var, *table->Number(row, 4), kExact)) << where;
    EXPECT_TRUE(Close(curve.ProgressAfter(epoch), *table->Number(row, 5), kExact)) << where;
    EXPECT_TRUE(Close(curve.Iterations(batch, epoch), *table->Number(row, 6), kExact)) << where;
  }
  EXPECT_EQ(table->rows(), 120u);
}

TEST(PeerTraces, ConstantsFollowFromTheFiles) {
  SKIP_WITHOUT_PEERS();
  const nlohmann::json applications = ReadJson(PolluxFolder() + "/applications.json");
  for (const auto& [name, expected] : applications.items()) {
    const Application& app = Pollux(name);
    EXPECT_EQ(app.init_batch_size(), expected["init_batch_size"]) << name;
    EXPECT_EQ(app.max_batch_size(), expected["max_batch_size"]) << name;
    EXPECT_EQ(app.min_local[0], expected["min_local_bsz"]) << name;
    EXPECT_EQ(app.max_local[0], expected["max_local_bsz"]) << name;
    EXPECT_EQ(app.curve.epochs(), expected["max_epochs"]) << name;
    EXPECT_TRUE(Close(app.curve.ProgressAfter(app.curve.epochs() - 1), expected["total_progress"], kExact))
        << name;
  }
}

// The triangulations, read by our own search, against the table that SciPy's interpolator made of them.
// Tetrahedra overlap where measured sizes lie on a grid, and which of them SciPy takes depends on its search:
// hence the few that differ.
class DelaunayTest : public testing::TestWithParam<std::string> {};

TEST_P(DelaunayTest, TetrahedraAgreeWithTheTable) {
  SKIP_WITHOUT_PEERS();
  const std::string& name = GetParam();
  const auto index = ReadJson(PolluxFolder() + "/interp-table/index.json");
  const int64_t low = index[name]["local_bsz"][0];
  const int64_t high = index[name]["local_bsz"][1];
  const auto table = TabulatedTimes::Load(PolluxFolder() + "/interp-table/" + name + ".f64", low, high);
  ASSERT_TRUE(table.ok()) << table.status();
  const std::string stem = PolluxFolder() + "/delaunay/" + name;
  const auto cells = TetrahedralTimes::Load(stem + "-points.csv", stem + "-simplices.csv");
  ASSERT_TRUE(cells.ok()) << cells.status();
  int compared = 0;
  int equal = 0;
  double worst = 0;
  for (int nodes = 5; nodes <= 16; ++nodes) {
    for (int replicas = nodes; replicas <= 4 * nodes; ++replicas) {
      for (int64_t local = low; local <= high; local += 1 + (high - low) / 40) {
        const auto expected = table->At(nodes, replicas, local);
        const auto actual = cells->At(nodes, replicas, local);
        ASSERT_EQ(actual.has_value(), expected.has_value()) << nodes << " " << replicas << " " << local;
        if (!actual) continue;
        ++compared;
        equal += Close(actual->step, expected->step, kExact) && Close(actual->sync, expected->sync, kExact);
        worst = std::max(worst, std::abs(actual->step / expected->step - 1));
      }
    }
  }
  EXPECT_GT(compared, 1000);
  EXPECT_LT(worst, 0.15);
  EXPECT_GE(equal, 0.97 * compared) << compared - equal << " of " << compared << " differ";
}

INSTANTIATE_TEST_SUITE_P(All, DelaunayTest,
                         testing::Values("bert", "cifar10", "deepspeech2", "imagenet", "yolov3"));

TEST(PeerTraces, SiasTypesAreReadThroughTwoFolders) {
  SKIP_WITHOUT_PEERS();
  EXPECT_EQ(DetectRules(SiaFolder()), TraceRules::kSia);
  EXPECT_EQ(DetectRules(PolluxFolder()), TraceRules::kPollux);
  for (const std::string name : {"bert", "cifar10", "deepspeech2", "imagenet", "yolov3"}) {
    const auto app =
        LoadApplication({SiaFolder(), PolluxFolder()}, name, {"aws", "rtx", "dgx-ext"}, TraceRules::kSia);
    ASSERT_TRUE(app.ok()) << app.status();
    // 5 nodes of 4 GPUs from Pollux's table; 3 of 8 and 2 of 8 from Sia's own files.
    EXPECT_TRUE(app->step_times[0].Resolve({4, 4, 4, 4, 4}).At(app->min_local[0]).has_value()) << name;
    EXPECT_TRUE(app->step_times[1].Resolve({8, 8, 8}).At(app->min_local[1]).has_value()) << name;
    EXPECT_TRUE(app->step_times[2].Resolve({8, 8}).At(app->min_local[2]).has_value()) << name;
    EXPECT_GT(app->calibration, 1) << name;
  }
}

TEST(PeerTraces, WhatIsMissingIsNamed) {
  SKIP_WITHOUT_PEERS();
  const auto unknown = LoadApplication({PolluxFolder()}, "gpt", {"aws"}, TraceRules::kPollux);
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(unknown.status().message()), testing::HasSubstr("traces/gpt"));
  const auto type = LoadApplication({PolluxFolder()}, "bert", {"tpu"}, TraceRules::kPollux);
  EXPECT_EQ(type.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(type.status().message()), testing::HasSubstr("placements-tpu.csv"));
}

}  // namespace
}  // namespace adaptdl::simulator
