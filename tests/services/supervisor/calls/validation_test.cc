#include "services/supervisor/calls/validation.h"

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace adaptdl::supervisor {
namespace {

using ::testing::HasSubstr;

v1::Hints GoodHints() {
  v1::Hints hints;
  hints.set_init_batch_size(64);
  hints.set_max_batch_size(1024);
  hints.set_min_local_batch_size(16);
  hints.set_max_local_batch_size(256);
  hints.set_max_profiled_replicas(4);
  v1::PerfParams* perf = hints.mutable_perf_params();
  perf->set_alpha_c(0.1);
  perf->set_beta_c(0.01);
  perf->set_gamma(1.5);
  hints.mutable_grad_params()->set_norm(1);
  hints.mutable_grad_params()->set_var(2);
  return hints;
}

// Defect 30 of the reference: hints that no policy survives, from the reference's own probes and beyond.
TEST(ValidateHintsTest, ParametersByGpuTypeAreCheckedAsTheOthers) {
  v1::Hints hints = GoodHints();
  v1::GpuTypePerfParams* typed = hints.add_perf_params_by_gpu_type();
  typed->set_gpu_type("A100");
  *typed->mutable_perf_params() = hints.perf_params();
  EXPECT_TRUE(ValidateHints(hints).ok());
  *hints.add_perf_params_by_gpu_type() = *typed;
  EXPECT_FALSE(ValidateHints(hints).ok()) << "the same type twice";
  hints.mutable_perf_params_by_gpu_type(1)->set_gpu_type("");
  EXPECT_FALSE(ValidateHints(hints).ok());
  hints.mutable_perf_params_by_gpu_type(1)->set_gpu_type("T4");
  EXPECT_TRUE(ValidateHints(hints).ok());
  hints.mutable_perf_params_by_gpu_type(1)->mutable_perf_params()->set_beta_c(std::nan(""));
  EXPECT_FALSE(ValidateHints(hints).ok());
  hints.mutable_perf_params_by_gpu_type(1)->clear_perf_params();
  EXPECT_FALSE(ValidateHints(hints).ok());
}

TEST(ValidateHintsTest, Defect30ImplausibleHintsAreRefusedByName) {
  EXPECT_TRUE(ValidateHints(GoodHints()).ok());
  v1::Hints least;
  least.set_init_batch_size(1);
  EXPECT_TRUE(ValidateHints(least).ok());
  const double nan = std::nan("");
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<std::pair<std::string, std::function<void(v1::Hints*)>>> cases = {
      {"init_batch_size", [](v1::Hints* hints) { hints->set_init_batch_size(0); }},
      {"init_batch_size", [](v1::Hints* hints) { hints->set_init_batch_size(-64); }},
      {"max_batch_size", [](v1::Hints* hints) { hints->set_max_batch_size(63); }},
      {"max_batch_size",
       [](v1::Hints* hints) { hints->set_max_batch_size(std::numeric_limits<int64_t>::max()); }},
      {"min_local_batch_size", [](v1::Hints* hints) { hints->set_min_local_batch_size(65); }},
      {"min_local_batch_size", [](v1::Hints* hints) { hints->set_min_local_batch_size(0); }},
      {"min_local_batch_size", [](v1::Hints* hints) { hints->set_min_local_batch_size(5000); }},
      {"max_local_batch_size", [](v1::Hints* hints) { hints->set_max_local_batch_size(15); }},
      {"max_profiled_replicas", [](v1::Hints* hints) { hints->set_max_profiled_replicas(-1); }},
      {"alpha_c", [&](v1::Hints* hints) { hints->mutable_perf_params()->set_alpha_c(nan); }},
      {"beta_c", [&](v1::Hints* hints) { hints->mutable_perf_params()->set_beta_c(infinity); }},
      {"alpha_n", [](v1::Hints* hints) { hints->mutable_perf_params()->set_alpha_n(-1); }},
      {"beta_n", [&](v1::Hints* hints) { hints->mutable_perf_params()->set_beta_n(nan); }},
      {"alpha_r", [&](v1::Hints* hints) { hints->mutable_perf_params()->set_alpha_r(-infinity); }},
      {"beta_r", [](v1::Hints* hints) { hints->mutable_perf_params()->set_beta_r(-0.1); }},
      {"gamma", [](v1::Hints* hints) { hints->mutable_perf_params()->set_gamma(0.5); }},
      {"gamma", [](v1::Hints* hints) { hints->mutable_perf_params()->set_gamma(11); }},
      {"perf_params", [](v1::Hints* hints) { hints->mutable_perf_params()->Clear(); }},
      {"grad_params.norm", [](v1::Hints* hints) { hints->mutable_grad_params()->set_norm(-1); }},
      {"grad_params.var", [&](v1::Hints* hints) { hints->mutable_grad_params()->set_var(nan); }},
  };
  for (const auto& [field, spoil] : cases) {
    v1::Hints hints = GoodHints();
    spoil(&hints);
    const absl::Status status = ValidateHints(hints);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << field;
    EXPECT_THAT(std::string(status.message()), HasSubstr(field));
  }
}

TEST(ValidateProgressTest, NotANumberIsRefused) {
  v1::TrainingProgress progress;
  EXPECT_TRUE(ValidateProgress(progress).ok());
  progress.set_fraction(-1);
  EXPECT_TRUE(ValidateProgress(progress).ok());
  progress.set_fraction(std::nan(""));
  EXPECT_FALSE(ValidateProgress(progress).ok());
  progress.set_fraction(1.5);
  EXPECT_FALSE(ValidateProgress(progress).ok());
  progress.set_fraction(0.5);
  progress.set_total_scale_invariant_steps(1e6);
  EXPECT_TRUE(ValidateProgress(progress).ok());
  progress.set_total_scale_invariant_steps(-1);
  EXPECT_FALSE(ValidateProgress(progress).ok());
  progress.set_total_scale_invariant_steps(std::numeric_limits<double>::infinity());
  EXPECT_FALSE(ValidateProgress(progress).ok());
}

TEST(ValidateProgressTest, EveryNumberIsFiniteAndNotNegative) {
  using Progress = v1::TrainingProgress;
  const std::vector<std::pair<std::string, std::function<void(Progress*, double)>>> fields = {
      {"progress.gain", [](Progress* told, double value) { told->set_gain(value); }},
      {"progress.efficiency", [](Progress* told, double value) { told->set_efficiency(value); }},
      {"progress.gradient_noise_scale",
       [](Progress* told, double value) { told->set_gradient_noise_scale(value); }},
      {"progress.learning_rate_factor",
       [](Progress* told, double value) { told->set_learning_rate_factor(value); }},
      {"progress.step_times.compute",
       [](Progress* told, double value) { told->mutable_step_times()->set_compute(value); }},
      {"progress.step_times.sync",
       [](Progress* told, double value) { told->mutable_step_times()->set_sync(value); }},
      {"progress.step_times.data",
       [](Progress* told, double value) { told->mutable_step_times()->set_data(value); }},
  };
  for (const auto& [field, set] : fields) {
    Progress progress;
    set(&progress, 2.5);
    EXPECT_TRUE(ValidateProgress(progress).ok()) << field;
    for (const double wrong : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
      set(&progress, wrong);
      EXPECT_THAT(std::string(ValidateProgress(progress).message()), HasSubstr(field));
    }
  }
}

TEST(ValidateProgressTest, MetricsMayBeAnythingUnderFewGoodNames) {
  v1::TrainingProgress progress;
  const auto add = [&](const std::string& name, double value) {
    v1::ReportedMetric* metric = progress.add_metrics();
    metric->set_name(name);
    metric->set_value(value);
    return metric;
  };
  add("loss", std::nan(""));
  add("val/loss_2.0-b", -std::numeric_limits<double>::infinity());
  add(std::string(64, 'a'), 1);
  EXPECT_TRUE(ValidateProgress(progress).ok());
  for (const std::string& name :
       {std::string(), std::string("loss"), std::string("2loss"), std::string("a b"), std::string("a\n"),
        std::string("\xff"), std::string(65, 'a')}) {
    add(name, 1);
    EXPECT_THAT(std::string(ValidateProgress(progress).message()), HasSubstr("progress.metrics.name"))
        << name;
    progress.mutable_metrics()->RemoveLast();
  }
  add("early", 1)->set_step(-1);
  EXPECT_THAT(std::string(ValidateProgress(progress).message()), HasSubstr("progress.metrics.step"));
  progress.clear_metrics();
  for (int i = 0; i < 16; ++i) add("m" + std::to_string(i), i);
  EXPECT_TRUE(ValidateProgress(progress).ok());
  add("one_more", 1);
  EXPECT_FALSE(ValidateProgress(progress).ok());
}

TEST(ValidateMachineUseTest, FiguresAreThoseOfAMachine) {
  v1::MachineUse good;
  good.set_cpus(8);
  good.set_memory_bytes(1);
  good.set_memory_total_bytes(2);
  for (int i = 0; i < 64; ++i) {
    v1::GpuUse* gpu = good.add_gpus();
    gpu->set_index(i);
    gpu->set_uuid(std::string(96, 'u'));
    gpu->set_utilization(1);
    gpu->set_temperature_celsius(-5);
  }
  EXPECT_TRUE(ValidateMachineUse(good).ok()) << ValidateMachineUse(good);
  const double nan = std::nan("");
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<std::function<void(v1::MachineUse*)>> wrongs = {
      [&](auto* use) { use->set_cpus(nan); },
      [&](auto* use) { use->set_cpus(-1); },
      [&](auto* use) { use->set_cpus(infinity); },
      [&](auto* use) { use->set_memory_bytes(3); },
      [&](auto* use) { use->set_memory_bytes(-1); },
      [&](auto* use) { use->set_memory_total_bytes(-1); },
      [&](auto* use) { use->add_gpus(); },
      [&](auto* use) { use->mutable_gpus(63)->set_index(-1); },
      [&](auto* use) { use->mutable_gpus(63)->set_uuid(std::string(97, 'u')); },
      [&](auto* use) { use->mutable_gpus(63)->set_uuid("GPU-\x1b[2J"); },
      [&](auto* use) { use->mutable_gpus(63)->set_utilization(1.01); },
      [&](auto* use) { use->mutable_gpus(63)->set_utilization(nan); },
      [&](auto* use) { use->mutable_gpus(63)->set_memory_bytes(1); },
      [&](auto* use) { use->mutable_gpus(63)->set_temperature_celsius(infinity); },
      [&](auto* use) { use->mutable_gpus(63)->set_power_watts(-1); },
      [&](auto* use) { use->mutable_gpus(63)->set_power_watts(nan); }};
  for (size_t i = 0; i < wrongs.size(); ++i) {
    v1::MachineUse use = good;
    wrongs[i](&use);
    EXPECT_FALSE(ValidateMachineUse(use).ok()) << i;
  }
}

TEST(ValidateNodeTest, NodesNeedAnIdAndAnAddress) {
  v1::Node node;
  node.set_node_id("a.example-1");
  node.set_worker_address("10.0.0.1:7103");
  node.set_replica_host("10.0.0.1");
  EXPECT_TRUE(ValidateNode(node).ok());
  for (const char* id : {"", "A", "a b", "-a", "a."}) {
    v1::Node wrong = node;
    wrong.set_node_id(id);
    EXPECT_FALSE(ValidateNode(wrong).ok()) << id;
  }
  for (const char* address : {"", "10.0.0.1", ":80", "a:0", "a:99999", "a:b"}) {
    v1::Node wrong = node;
    wrong.set_worker_address(address);
    EXPECT_FALSE(ValidateNode(wrong).ok()) << address;
  }
}

}  // namespace
}  // namespace adaptdl::supervisor
