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
